"""Traces of TensorFlow and Keras 3: the graph of a training step is walked, nothing of it is computed.

`session.py` begins; `keras_models.py`, `functions.py` and `datasets.py` replace what scripts call, and `program/` reads the graphs. Nothing
needs a GPU.
"""
