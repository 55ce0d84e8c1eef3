"""What the Python-based Triton backends of this folder share: reading the configuration, batching, Triton's calls."""
