"""Traces of TensorFlow and Keras 3: the graph of a training step is walked, nothing of it is computed.

`session.py` begins; `keras_models.py`, `functions.py` and `datasets.py` replace what scripts call, `graph.py` makes one list of a function's
operators, and `liveness.py` says when which memory is in use. Nothing needs a GPU.
"""
