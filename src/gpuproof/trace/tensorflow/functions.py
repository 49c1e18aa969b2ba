"""Watches `tf.function`: one that trains is recorded and not run, so that loops of a script's own can be traced."""

# pyright: reportPrivateUsage=false, reportUnknownLambdaType=false, reportAttributeAccessIssue=false, reportUntypedFunctionDecorator=false

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow.python.eager.polymorphic_function.polymorphic_function import Function

from gpuproof.trace.notes import Notes, is_users
from gpuproof.trace.tensorflow.keras_models import Record, zeros_of

_SERVER = f"{Path(__file__).resolve().parents[2] / 'serve'}{os.sep}"
"""GPUproof's model server calls a Keras model without a handler by a function of its own."""


class FunctionCalls:
    """Watches calls of functions that the script made.

    Args:
        notes: takes assumptions.
        is_step: whether a concrete function is a step.
        record: takes each call of one.
        by_script: whether the script itself runs, not Keras.
    """

    def __init__(
        self, notes: Notes, is_step: Callable[[Any], bool], record: Record, by_script: Callable[[], bool]
    ) -> None:
        self._notes = notes
        self._is_step = is_step
        self._record = record
        self._by_script = by_script
        self._concrete: dict[Any, Any] = {}

    def install(self) -> None:
        """Watch from now on."""
        original = Function.__call__

        def call(function: Any, *args: Any, **kwargs: Any) -> Any:
            if not tf.executing_eagerly() or not self._by_script() or not _is_of_script(function):
                return original(function, *args, **kwargs)
            concrete = _static(function, args, kwargs)
            if not self._is_step(concrete):
                return original(function, *args, **kwargs)
            self._notes.add("value", f"What {function.python_function.__name__} returns is assumed to be 0.")
            self._record((id(function),), concrete, None)
            return zeros_of(concrete.structured_outputs)

        Function.__call__ = call


def _is_of_script(function: Any) -> bool:
    code = getattr(function.python_function, "__code__", None)
    return code is None or is_users(code.co_filename) or code.co_filename.startswith(_SERVER)


def _static(function: Any, args: Any, kwargs: Any) -> Any:
    """The function for the shapes of these arguments, whatever its signature allows."""
    concrete = function.get_concrete_function(*args, **kwargs)
    count = len(concrete.graph.inputs) - len(concrete.graph.captures)
    if all(tensor.shape.is_fully_defined() for tensor in concrete.graph.inputs[:count]):
        return concrete
    return tf.function(function.python_function).get_concrete_function(*args, **kwargs)
