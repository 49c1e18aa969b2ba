"""`save()` and `load()` for Keras, TensorFlow, PyTorch and transformers models."""
