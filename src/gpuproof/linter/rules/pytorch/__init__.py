"""PyTorch devices: rules PT."""
