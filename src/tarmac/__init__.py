"""Tarmac takes a TensorFlow, Keras or PyTorch script to the right AWS GPU and proves that the GPU did the work."""

__version__ = "0.1.0"
