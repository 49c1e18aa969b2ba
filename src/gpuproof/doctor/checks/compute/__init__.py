"""Layer 5: a kernel computes the right answer, with CUDA and with each framework (D5xx)."""
