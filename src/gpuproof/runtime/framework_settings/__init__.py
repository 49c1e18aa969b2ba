"""The settings that `setup()` applies to TensorFlow and PyTorch, each with whether it was applied."""
