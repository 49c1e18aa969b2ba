"""TensorFlow: rules TF."""
