"""Layer 4: PyTorch and TensorFlow builds against this driver and GPU (D4xx)."""
