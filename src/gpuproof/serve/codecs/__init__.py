"""Bodies to arrays and back: JSON, CSV, NPY, NPZ and TensorFlow Serving's JSON. Pickles are never read."""
