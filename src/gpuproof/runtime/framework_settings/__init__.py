"""Settings that `setup()` applies to TensorFlow and PyTorch, each with its result."""
