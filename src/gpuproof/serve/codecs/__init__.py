"""Codecs between bodies and arrays: JSON, CSV, NPY, NPZ, text, TensorFlow Serving's JSON. They never read pickles."""
