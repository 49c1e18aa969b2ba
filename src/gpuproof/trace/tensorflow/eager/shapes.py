"""Shapes and types of an operator's results, by TensorFlow's own shape functions: nothing is computed."""

# pyright: reportPrivateUsage=false, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import op_def_library, op_def_registry, ops
from tensorflow.python.ops import array_ops, handle_data_util

Result = tuple["tuple[int | None, ...] | None", Any]
"""Shape, with None for sizes that depend on values, and type."""

_CREATE = ops.Graph._create_op_internal
"""As it is before anything watches it."""
_VALUES = 64
"""Numbers in a tensor whose values may say what the shape of a result is, such as axes."""
_MOST = 500
"""Operators in one graph, which keeps them all."""


class ShapeFunctions:
    """Remembers what it has found."""

    def __init__(self) -> None:
        self._known: dict[Hashable, list[Result]] = {}
        self._graph: Any = None
        self._count = 0

    def results(self, operator: str, inputs: Sequence[Any], attributes: dict[str, Any]) -> list[Result]:
        """Shapes and types of an operator's results.

        Args:
            operator: its type.
            inputs: eager tensors.
            attributes: as the eager runtime takes them.

        Raises:
            ValueError: the operator does not take inputs of these shapes.
        """
        given = tuple((input_.dtype, tuple(input_.shape)) for input_ in inputs)
        handles = tuple(id(input_) for input_ in inputs if input_.dtype == tf.resource)
        key = (operator, given, handles, _hashable(attributes))
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._inferred(operator, inputs, attributes, _placeholder)
        if all(shape is not None and None not in shape for shape, _ in found):
            return found
        return self._inferred(operator, inputs, attributes, _constant)

    def _inferred(
        self,
        operator: str,
        inputs: Sequence[Any],
        attributes: dict[str, Any],
        argument: Callable[[Any], Any],
    ) -> list[Result]:
        if self._graph is None or self._count >= _MOST:
            self._graph, self._count = tf.Graph(), 0
        self._count += 1
        definition = op_def_registry.get(operator)
        types = {attribute.name: attribute.type for attribute in definition.attr}
        values = {
            name: op_def_library.value_to_attr_value(value, types[name], name)
            for name, value in attributes.items()
            if value is not None
        }
        with self._graph.as_default(), ops.device(None):
            arguments = [argument(input_) for input_ in inputs]
            operation = _CREATE(self._graph, operator, arguments, attrs=values, op_def=definition)
        return [
            (None if output.shape.rank is None else tuple(output.shape.as_list()), output.dtype.base_dtype)
            for output in operation.outputs
        ]


def _placeholder(tensor: Any) -> Any:
    found = array_ops.placeholder(tensor.dtype, tensor.shape)
    if tensor.dtype == tf.resource:
        handle_data_util.copy_handle_data(tensor, found)
    return found


def _constant(tensor: Any) -> Any:
    if (tensor.dtype.is_integer or tensor.dtype.is_bool) and tensor.shape.num_elements() <= _VALUES:
        return tf.constant(tensor.numpy())
    return _placeholder(tensor)


def _hashable(value: Any) -> Hashable:
    if isinstance(value, dict):
        return tuple((name, _hashable(item)) for name, item in value.items())
    if isinstance(value, (list, tuple)):
        return tuple(_hashable(item) for item in value)
    try:
        hash(value)
    except TypeError:
        return str(value)
    return value
