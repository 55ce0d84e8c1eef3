"""Code shared by the Python-based Triton backends: reading the configuration, batching, the interface to Triton."""
