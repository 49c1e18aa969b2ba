"""The variables of a script, by their handles, which are all that operators see of them."""

# pyright: reportPrivateUsage=false, reportAttributeAccessIssue=false

from __future__ import annotations

import weakref
from dataclasses import dataclass
from math import prod
from typing import Any

import tensorflow as tf
from tensorflow.python.ops import resource_variable_ops

from gpuproof.trace.document import CATEGORIES
from gpuproof.trace.tensorflow.program.costs import tensor_bytes

_PARAMETER, _OPTIMIZER, _BUFFER = (CATEGORIES.index(name) for name in ("parameter", "optimizer", "buffer"))


@dataclass
class Storage:
    """Memory of one or several tensors.

    Args:
        block: its index in the trace.
        size: bytes.
        holders: tensors and variables that are in it.
        backward: operators of gradients before it was made; None if it was made by one.
        segment: in which it was made.
    """

    block: int
    size: int
    holders: int
    backward: int | None
    segment: int


@dataclass
class Variable:
    """A variable.

    Args:
        key: of its handle.
        shape: of its value.
        dtype: of its value, such as `float32`.
        trainable: gradients change it.
        storage: None until it is used.
        by_optimizer: an optimizer has written it.
    """

    key: int
    shape: tuple[int, ...]
    dtype: str
    trainable: bool
    storage: Storage | None = None
    by_optimizer: bool = False

    @property
    def numbers(self) -> int:
        """How many numbers it has."""
        return prod(self.shape)

    @property
    def size(self) -> int:
        """Bytes."""
        return tensor_bytes(self.shape, self.dtype)

    @property
    def category(self) -> int:
        """What it is for, as index of `CATEGORIES`."""
        if self.trainable:
            return _PARAMETER
        return _OPTIMIZER if self.by_optimizer else _BUFFER


class Variables:
    """Finds variables by the handles that operators take."""

    def __init__(self) -> None:
        self._trainable: dict[int, Any] = {}
        self._found: dict[int, Variable | None] = {}

    def install(self) -> None:
        """Note from now on which variables are trainable."""
        kind = resource_variable_ops.BaseResourceVariable
        initialize = kind.__init__

        def init(variable: Any, *args: Any, **kwargs: Any) -> None:
            initialize(variable, *args, **kwargs)
            handle = variable._handle
            # What `assign` returns is another variable with the same handle.
            first = not isinstance(variable, resource_variable_ops._UnreadVariable)
            if first and variable._trainable and tf.is_tensor(handle):
                key = id(handle)
                self._trainable[key] = weakref.ref(handle, lambda _: self._trainable.pop(key, None))
                found = self._found.get(key)
                if found is not None:
                    found.trainable = True  # Its first value was assigned before.

        kind.__init__ = init

    def of(self, handle: Any) -> Variable | None:
        """The variable of a handle; None of other resources, and of variables whose shape is not known."""
        key = id(handle)
        if key not in self._found:
            self._found[key] = self._described(handle)
            weakref.finalize(handle, self._found.pop, key, None)
        return self._found[key]

    def forget_storage(self) -> None:
        """Forget which of them are in memory."""
        for variable in self._found.values():
            if variable is not None:
                variable.storage = None

    def _described(self, handle: Any) -> Variable | None:
        data = resource_variable_ops.get_eager_safe_handle_data(handle)
        if data is None or not data.is_set or len(data.shape_and_type) != 1:
            return None
        shape = tf.TensorShape(data.shape_and_type[0].shape)
        dtype = tf.as_dtype(data.shape_and_type[0].dtype)
        if not shape.is_fully_defined() or dtype in (tf.variant, tf.resource, tf.string):
            return None
        sizes = tuple(size or 0 for size in shape.as_list())
        return Variable(id(handle), sizes, dtype.name, id(handle) in self._trainable)
