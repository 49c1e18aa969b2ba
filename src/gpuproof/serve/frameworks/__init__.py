"""What serves a model where its handler leaves something to the defaults: PyTorch, TensorFlow and Keras, and neither."""
