"""PyTorch, TensorFlow, Keras and transformers: versions, signatures, and what their calls do."""
