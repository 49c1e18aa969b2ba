"""Layer 1: GPUs on the PCI bus (D1xx)."""
