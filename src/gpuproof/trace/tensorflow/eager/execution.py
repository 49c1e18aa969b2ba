"""Runs eager operators one by one, or makes their results without computing them where that would take long."""

# pyright: reportPrivateUsage=false, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

import tensorflow as tf
from tensorflow.python import pywrap_tfe
from tensorflow.python.eager import core, execute
from tensorflow.python.framework import op_def_registry, ops

from gpuproof.trace.notes import Notes
from gpuproof.trace.tensorflow.eager.called_functions import CalledFunctions
from gpuproof.trace.tensorflow.eager.recorder import Recorder
from gpuproof.trace.tensorflow.eager.shapes import Result, ShapeFunctions
from gpuproof.trace.tensorflow.program.costs import (
    LARGEST,
    Typed,
    is_reserved_by_cudnn,
    largest_shape,
    operator_of,
    tensor_bytes,
)
from gpuproof.trace.tensorflow.program.graph import Node
from gpuproof.trace.tensorflow.unbacked import unbacked_zeros

_FLOPS, _BYTES = 2e10, 4e9
"""Of all operators that are computed: about two seconds of two cores."""
_LARGE = 1 << 26
"""Bytes of the tensors of one operator from which on nothing more is computed."""
_SMALL = 1 << 16
"""Bytes of the tensors of one operator up to which it is always computed, if its values are known: shapes, axes, counters."""
_NO_KERNEL = (tf.errors.UnimplementedError, tf.errors.NotFoundError)
"""What TensorFlow raises for an operator that the CPU does not have."""
_STOPPED = "From here on nothing was computed: values that the model computes are assumed to be 0."
_OF_SHAPES = frozenset("Shape ShapeN Size Rank VariableShape VarIsInitializedOp".split())
"""Operators that need no values of their inputs."""
_SHARING = frozenset("VarHandleOp ReadVariableOp AssignVariableOp".split())
"""Operators on variables that compute nothing: they share a buffer."""


Known = tuple["tuple[int, ...]", Any]
"""Shape and type of a result."""


class Attributes:
    """The attributes of an eager operator, as an operation of a graph returns them.

    Args:
        values: names and values, one after the other, as the eager runtime takes them.
    """

    def __init__(self, values: Sequence[Any]) -> None:
        self.values = dict(zip(values[::2], values[1::2]))  # noqa: B905

    def get_attr(self, name: str) -> Any:
        """The value of an attribute.

        Raises:
            ValueError: the operator has no such attribute.
        """
        if name not in self.values:
            raise ValueError(f"no attribute {name}")
        return self.values[name]


class EagerExecution:
    """Takes over TensorFlow's eager execution.

    Args:
        recorder: takes each operator.
        functions: knows what functions do that the script calls.
        notes: takes assumptions.
        phase: what operators are for now.
        active: whether operators are those of the script's own loop, not of Keras.
    """

    def __init__(
        self,
        recorder: Recorder,
        functions: CalledFunctions,
        notes: Notes,
        phase: Callable[[], str],
        active: Callable[[], bool],
    ) -> None:
        self._recorder = recorder
        self._functions = functions
        self._notes = notes
        self._phase = phase
        self._active = active
        self._shapes = ShapeFunctions()
        self._threads: set[int] = set()
        self._busy = False
        self._computes = True
        self._flops = self._bytes = 0.0
        self._fast = pywrap_tfe.TFE_Py_FastPathExecute
        self._run = execute.execute
        self._run_cancellable = execute.execute_with_cancellation

    def install(self) -> None:
        """Take over from now on, in the threads that `watch_thread` names."""
        pywrap_tfe.TFE_Py_FastPathExecute = self._fast_path
        execute.execute = self._execute
        execute.execute_with_cancellation = self._execute_cancellable
        self._functions.install()
        read = ops._EagerTensorBase._numpy

        def read_values(tensor: Any) -> Any:
            if self._recorder.is_made_up(tensor) and self._watches():
                self._notes.add("value", "A value that the model computes is assumed to be 0.")
            return read(tensor)

        ops._EagerTensorBase._numpy = read_values

    def watch_thread(self, identity: int) -> None:
        """Take over operators that a thread calls; others prepare data."""
        self._threads.add(identity)

    def _watches(self) -> bool:
        return not self._busy and threading.get_ident() in self._threads and self._active()

    @contextmanager
    def _own(self) -> Generator[None, None, None]:
        """What GPUproof itself calls is not recorded."""
        self._busy = True
        try:
            yield
        finally:
            self._busy = False

    def _fast_path(self, *args: Any) -> Any:
        if self._watches():
            # TensorFlow then prepares the call in Python, and calls `execute`.
            raise core._FallbackException("recorded")
        return self._fast(*args)

    def _execute_cancellable(
        self,
        op_name: Any,
        num_outputs: int,
        inputs: Any,
        attrs: Any,
        ctx: Any,
        cancellation_manager: Any,
        name: Any = None,
    ) -> Any:
        if self._watches():
            return self._execute(op_name, num_outputs, inputs, attrs, ctx, name)
        return self._run_cancellable(op_name, num_outputs, inputs, attrs, ctx, cancellation_manager, name)

    def _execute(
        self, op_name: Any, num_outputs: int, inputs: Any, attrs: Any, ctx: Any, name: Any = None
    ) -> Any:
        def run() -> Any:
            return self._run(op_name, num_outputs, inputs, attrs, ctx, name)

        if not self._watches() or not all(isinstance(input_, ops.EagerTensor) for input_ in inputs):
            return run()
        operator = op_name.decode() if isinstance(op_name, bytes) else op_name
        with self._own():
            if op_def_registry.get(operator) is None:
                return self._call_function(operator, inputs, run)
            return self._call(operator, inputs, Attributes(attrs or ()), run)

    def _call(
        self, operator: str, inputs: Sequence[Any], attributes: Attributes, run: Callable[[], Any]
    ) -> Any:
        recorder = self._recorder
        if operator == "DestroyResourceOp":
            recorder.close_variable(inputs[0])
            return run()
        if not recorder.is_on_gpu(inputs):
            return run()
        made_up = operator not in _OF_SHAPES and any(recorder.is_made_up(input_) for input_ in inputs)
        results = self._not_computed(operator, inputs, attributes, made_up)
        outputs: Any = None
        if results is None:
            try:
                outputs = run()
            except _NO_KERNEL:
                results = self._without_kernel(operator, inputs, attributes)
        if results is not None:
            made_up = True
            outputs = [unbacked_zeros(shape, dtype) for shape, dtype in results]
        given: list[Any] = outputs if isinstance(outputs, list) else []
        node = self._node(operator, attributes, [_typed(spec) for spec in given])
        recorder.record(node, inputs, given, made_up=made_up)
        return outputs

    def _node(self, operator: str, attributes: Attributes, results: Sequence[Typed]) -> Node:
        shapes: list[tuple[int | None, ...] | None] = [shape for shape, _ in results]
        return Node(operator, attributes, [], shapes, [dtype for _, dtype in results], self._phase())

    def _not_computed(
        self, operator: str, inputs: Sequence[Any], attributes: Attributes, made_up: bool
    ) -> list[Known] | None:
        """Shapes and types of the results, if the operator is not to be computed; else None."""
        if operator in _OF_SHAPES or operator in _SHARING or _has_handles(operator, inputs):
            return None
        try:
            found = self._shapes.results(operator, inputs, attributes.values)
        except (ValueError, TypeError):
            return None  # TensorFlow says what is wrong when it runs.
        given = [_typed(input_) for input_ in inputs]
        results = [(shape, dtype) for shape, dtype in found if shape is not None and None not in shape]
        if len(results) < len(found):
            if not made_up and (self._computes or sum(tensor_bytes(*spec) for spec in given) <= _SMALL):
                return None
            return self._largest(operator, found, given)
        known: list[Known] = [(tuple(size or 0 for size in shape), dtype) for shape, dtype in results]
        typed = [(shape, dtype.name) for shape, dtype in known]
        size = sum(tensor_bytes(*spec) for spec in (*given, *typed))
        if size <= _SMALL and not (made_up and _needs_values(known)):
            return None
        if not self._computes or not self._affords(operator, attributes, given, typed, size):
            return known
        return None

    def _affords(
        self, operator: str, attributes: Attributes, inputs: list[Typed], results: list[Typed], size: int
    ) -> bool:
        """Whether there is time and memory to compute an operator; if not, no other one is computed."""
        call = operator_of(self._node(operator, attributes, results), inputs, results)
        if call is not None:
            self._flops += call.flops
            self._bytes += call.bytes
        self._computes = self._flops <= _FLOPS and self._bytes <= _BYTES and size <= _LARGE
        if not self._computes:
            self._notes.add("value", _STOPPED)
        return self._computes

    def _without_kernel(self, operator: str, inputs: Sequence[Any], attributes: Attributes) -> list[Known]:
        """Results of an operator that only a GPU computes."""
        found = self._shapes.results(operator, inputs, attributes.values)
        known = self._largest(operator, found, [_typed(input_) for input_ in inputs])
        self._notes.add("value", f"{operator} is computed by a GPU only: its results are assumed to be 0.")
        return known

    def _largest(self, operator: str, results: Sequence[Result], inputs: list[Typed]) -> list[Known]:
        """Results of which some sizes depend on values."""
        known: list[Known] = []
        for shape, dtype in results:
            sizes = tuple(size for size in shape or () if size is not None)
            if shape is not None and len(sizes) == len(shape):
                known.append((sizes, dtype))
                continue
            known.append((largest_shape(operator, shape, dtype.name, inputs), dtype))
            if not is_reserved_by_cudnn(operator):
                self._notes.add("dynamic-shape", LARGEST.format(operator))
        return known

    def _call_function(self, name: str, inputs: Sequence[Any], run: Callable[[], Any]) -> Any:
        recorder = self._recorder
        called = self._functions.find(name, inputs, self._phase())
        if called is None:
            return run()
        made_up = any(recorder.is_made_up(input_) for input_ in inputs)
        known = None if called.results is None else called.results
        self._flops += called.flops
        if self._computes and self._flops > _FLOPS and known is not None:
            self._computes = False
            self._notes.add("value", _STOPPED)
        if known is not None and not self._computes:
            made_up = True
            outputs: Any = [unbacked_zeros(shape, dtype) for shape, dtype in known]
        else:
            outputs = run()
        given: list[Any] = outputs if isinstance(outputs, list) else []
        recorder.record_function(called, inputs, given, phase=self._phase(), made_up=made_up)
        return outputs


def _typed(tensor: Any) -> Typed:
    return tuple(tensor.shape), tensor.dtype.base_dtype.name


def _has_handles(operator: str, inputs: Sequence[Any]) -> bool:
    """Whether an operator takes or makes something other than numbers, apart from variables that it takes."""
    if any(input_.dtype in (tf.variant, tf.string) for input_ in inputs):
        return True
    handles = (tf.resource, tf.variant, tf.string)
    return any(
        tf.as_dtype(output.type) in handles
        for output in op_def_registry.get(operator).output_arg
        if output.type
    )


def _needs_values(results: Sequence[Known]) -> bool:
    """Whether an operator makes floating-point numbers, or only checks something: zeros in place of its inputs would mislead it."""
    return not results or any(dtype.is_floating or dtype.is_complex for _, dtype in results)
