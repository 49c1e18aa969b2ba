"""Traces of TensorFlow and Keras 3: the graph of a training step is read, and only what comes before the first step is computed.

`session.py` begins. `keras_models.py` replaces `Model.fit` and similar methods, `functions.py` calls of `tf.function`: the step becomes a
concrete function whose shapes are known. `phases.py` notes which operators a gradient tape or an optimizer adds; `program/` reads the
graphs. Grappler's virtual GPUs were tried: their peak memory is too low.

Loops without `tf.function` are followed by `eager/`, from the first gradient tape on; `cycle.py` finds the step in the sequence of updates.
"""
