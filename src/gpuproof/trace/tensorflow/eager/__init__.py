"""Loops that train operator by operator, with `tf.GradientTape` and without `tf.function`.

From the first tape on, `execution.py` runs each operator, or makes its result without computing it; `recorder.py` keeps what it costs and how
long its tensors live, and `loop.py` knows where a step ends.
"""
