"""moto's server, extended in memory by the parts of AWS that an EKS stack needs and moto 5.2 lacks."""
