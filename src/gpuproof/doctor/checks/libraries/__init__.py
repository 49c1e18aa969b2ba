"""Layer 3: CUDA libraries (D3xx)."""
