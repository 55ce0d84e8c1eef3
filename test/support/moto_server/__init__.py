"""moto's server with the parts of AWS that an EKS stack needs and moto 5.2 lacks, kept in memory."""
