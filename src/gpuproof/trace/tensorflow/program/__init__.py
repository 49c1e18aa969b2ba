"""Graphs of TensorFlow functions: their operators as one list (`graph.py`), what each costs (`costs.py`), and which memory is in use when
(`liveness.py`). Nothing is computed.
"""
