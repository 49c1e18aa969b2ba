"""Default implementations of handler functions for PyTorch, for TensorFlow and Keras, and for other models."""
