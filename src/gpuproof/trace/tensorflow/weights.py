"""Weights of Keras models: large ones take no memory, because nothing needs their values."""

# pyright: reportPrivateUsage=false, reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import tensorflow as tf
from keras.src.backend.tensorflow.core import Variable

from gpuproof.trace.tensorflow.unbacked import unbacked_zeros

_LARGE = 1 << 20
"""Bytes from which on a weight is not initialized; the values of smaller ones may still be looked at."""


def leave_weights_unbacked() -> None:
    """Let large weights be zeros without memory from now on, in place of what their initializers return."""
    initialize: Callable[..., None] = Variable._initialize_with_initializer

    def create(variable: Any, initializer: Any) -> None:
        shape, dtype = tuple(variable._shape), tf.as_dtype(variable._dtype)
        if None in shape or prod(shape) * dtype.size < _LARGE or not tf.executing_eagerly():
            initialize(variable, initializer)
        else:
            variable._initialize(lambda: unbacked_zeros(shape, dtype))

    Variable._initialize_with_initializer = create
