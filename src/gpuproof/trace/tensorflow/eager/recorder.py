"""What eager operators cost, and how long their tensors stay in memory: as long as something refers to them."""

# pyright: reportPrivateUsage=false, reportAttributeAccessIssue=false

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

from gpuproof.trace.document import CATEGORIES, Memory, Operator
from gpuproof.trace.tensorflow.eager.called_functions import CalledFunction
from gpuproof.trace.tensorflow.eager.variables import Storage, Variable, Variables
from gpuproof.trace.tensorflow.program.costs import is_host, operator_of, tensor_bytes
from gpuproof.trace.tensorflow.program.graph import Node, writes_variable
from gpuproof.trace.tensorflow.program.operator_kinds import ALIASES

_ACTIVATION, _TEMPORARY = CATEGORIES.index("activation"), CATEGORIES.index("temporary")
_GRADIENT, _INPUT, _BUFFER = (CATEGORIES.index(name) for name in ("gradient", "input", "buffer"))


@dataclass
class Segment:
    """What happened up to an update of weights, since the one before.

    Args:
        calls: how often each operator was called.
        host_operators: that the script called.
        input_bytes: of tensors that came from elsewhere.
        end: how many allocations and frees there were until its end.
        used: variables that operators took.
        has_gradients: gradients were computed.
        written: trainable variables that were then changed.
        by_hand: some of them without an optimizer.
    """

    calls: dict[Operator, int] = field(default_factory=dict)
    host_operators: int = 0
    input_bytes: int = 0
    end: int = 0
    used: set[int] = field(default_factory=set)
    has_gradients: bool = False
    written: set[int] = field(default_factory=set)
    by_hand: bool = False


@dataclass
class _Entry:
    """A tensor that is alive.

    Args:
        reference: to it.
        storage: None in the memory of the host.
        made_up: its values were not computed.
    """

    reference: Any
    storage: Storage | None
    made_up: bool


class Recorder:
    """Keeps operators, allocations and frees.

    Args:
        variables: those of the script.
        end_update: called when gradients are computed after weights were changed by hand: the step was over before.
    """

    def __init__(self, variables: Variables, end_update: Callable[[], None]) -> None:
        self._variables = variables
        self._end_update = end_update
        self._tensors: dict[int, _Entry] = {}
        self.restart()

    def restart(self) -> None:
        """Forget everything that happened; what is alive will be found again when it is used."""
        self.blocks: list[tuple[int, int]] = []
        self.events: list[int] = []
        self.segments: list[Segment] = []
        self.used: dict[int, Variable] = {}
        self.now = Segment()
        self._backward = 0
        self._outside: list[Storage] = []
        for entry in self._tensors.values():
            entry.storage = None
        self._variables.forget_storage()

    def end_segment(self) -> None:
        """Weights were updated."""
        self.now.end = len(self.events)
        self.segments.append(self.now)
        self.now = Segment()

    def memory(self, ends: Sequence[int]) -> Memory:
        """Allocations and frees.

        Args:
            ends: of steps: how many allocations and frees there were until each.
        """
        for storage in self._outside:
            # What the script takes from elsewhere once, and keeps.
            if storage.segment == 0 and storage.holders and len(self.segments) > 1:
                self.blocks[storage.block] = (storage.size, _BUFFER)
        for variable in self.used.values():
            if variable.storage is not None:
                self.blocks[variable.storage.block] = (variable.storage.size, variable.category)
        events: list[int] = []
        start = 0
        for end in ends:
            events += [*self.events[start:end], 0]
            start = end
        used = max((abs(event) for event in events), default=0)
        return Memory(self.blocks[:used], events)

    def is_made_up(self, tensor: Any) -> bool:
        """Whether a tensor's values were not computed, but taken to be 0."""
        entry = self._tensors.get(id(tensor))
        return entry is not None and entry.made_up

    def is_on_gpu(self, inputs: Sequence[Any]) -> bool:
        """Whether an operator may run there: it takes numbers and variables, not strings, iterators or the like."""
        handles = [input_ for input_ in inputs if input_.dtype in (tf.resource, tf.variant, tf.string)]
        return all(
            handle.dtype == tf.resource and self._variables.of(handle) is not None for handle in handles
        )

    def record(
        self, node: Node, inputs: Sequence[Any], outputs: Sequence[Any], *, made_up: bool = False
    ) -> None:
        """Record a call of an operator.

        Args:
            node: the operator, with the shapes of its results.
            inputs: eager tensors.
            outputs: eager tensors.
            made_up: the results were not computed.
        """
        now = self.now
        now.host_operators += 1
        if node.phase == "backward":
            self._backward += 1
        self._take(inputs)
        given = [_typed(input_) for input_ in inputs]
        operator = operator_of(node, given, [_typed(output) for output in outputs])
        if operator is not None:
            now.calls[operator] = now.calls.get(operator, 0) + 1
        if writes_variable(node.type) and inputs[0].dtype == tf.resource:
            self._write(node, inputs)
        shared = node.type in ALIASES
        for position, tensor in enumerate(outputs):
            source = inputs[position] if shared and position < len(inputs) else None
            self._add(tensor, node.phase, source, made_up=made_up)

    def record_function(
        self,
        called: CalledFunction,
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        *,
        phase: str,
        made_up: bool,
    ) -> None:
        """Record a call of a function.

        Args:
            called: the function.
            inputs: eager tensors.
            outputs: eager tensors.
            phase: in which it was called.
            made_up: the results were not computed.
        """
        step = called.step
        has_gradients = any(operator.phase == "backward" for operator, _ in step.calls)
        if has_gradients and self.now.by_hand:
            self._end_update()
        now = self.now
        self._take(inputs)
        for operator, count in step.calls:
            now.calls[operator] = now.calls.get(operator, 0) + count
        now.host_operators += step.host_operators
        now.has_gradients |= has_gradients and phase == "forward"
        self._backward += has_gradients
        size = sum(_bytes(output) for output in outputs)
        if step.peak > size:
            self._release(self._allocate(step.peak - size, _TEMPORARY, phase))
        for position, handle in enumerate(inputs):
            if position in called.by_optimizer | called.by_hand:
                variable = self._note_write(handle, by_optimizer=position in called.by_optimizer)
                # Nothing else says that an optimizer was applied in a function.
                now.by_hand |= variable is not None and variable.trainable
        for tensor in outputs:
            self._add(tensor, phase, None, made_up=made_up)

    def mark_gradients(self, tensors: Sequence[Any]) -> None:
        """Note that these are gradients."""
        if self.now.by_hand:
            self._end_update()
        self.now.has_gradients = True
        for tensor in tensors:
            entry = self._tensors.get(id(tensor))
            if entry is not None and entry.storage is not None and entry.storage.backward is None:
                self.blocks[entry.storage.block] = (entry.storage.size, _GRADIENT)

    def close_variable(self, handle: Any) -> None:
        """A variable is deleted."""
        variable = self._variables.of(handle)
        if variable is not None and variable.storage is not None:
            self._release(variable.storage)
            variable.storage = None

    def _take(self, inputs: Sequence[Any]) -> None:
        """Find out about tensors and variables that were there before."""
        for tensor in inputs:
            if tensor.dtype == tf.resource:
                variable = self._variables.of(tensor)
                if variable is not None:
                    self.used[variable.key] = variable
                    self.now.used.add(variable.key)
                    if variable.storage is None and variable.size:
                        variable.storage = self._allocate(variable.size, variable.category, "forward")
                continue
            entry = self._tensors.get(id(tensor))
            if entry is None:
                entry = self._enter(tensor, None, made_up=False)
            elif entry.storage is not None:
                continue
            size = _bytes(tensor)
            if size:
                entry.storage = self._allocate(size, _INPUT, "forward")
                self._outside.append(entry.storage)
                if tensor.shape.rank:
                    self.now.input_bytes += size

    def _write(self, node: Node, inputs: Sequence[Any]) -> None:
        for handle in inputs:
            if handle.dtype != tf.resource:
                continue
            variable = self._note_write(handle, by_optimizer=node.phase == "optimizer")
            if variable is None:
                continue
            storage = variable.storage
            if node.type == "AssignVariableOp":
                # The variable takes the memory of the tensor.
                entry = self._tensors.get(id(inputs[1]))
                variable.storage = None if entry is None else entry.storage
                if variable.storage is not None:
                    variable.storage.holders += 1
                    self.blocks[variable.storage.block] = (variable.storage.size, variable.category)
                if storage is not None:
                    self._release(storage)
            elif storage is not None and storage.holders > 1:
                # Some tensor still has the old value.
                variable.storage = self._allocate(storage.size, variable.category, node.phase)
                self._release(storage)

    def _note_write(self, handle: Any, *, by_optimizer: bool) -> Variable | None:
        variable = self._variables.of(handle)
        if variable is None:
            return None
        variable.by_optimizer |= by_optimizer
        if variable.trainable and (by_optimizer or self.now.has_gradients):
            self.now.written.add(variable.key)
            self.now.by_hand |= not by_optimizer
        return variable

    def _add(self, tensor: Any, phase: str, source: Any, *, made_up: bool) -> None:
        if tensor.dtype in (tf.resource, tf.variant, tf.string):
            return
        storage = None if source is None else self._storage_of(source)
        if storage is not None:
            storage.holders += 1
        elif _bytes(tensor):
            storage = self._allocate(_bytes(tensor), _TEMPORARY, phase)
        self._enter(tensor, storage, made_up=made_up)

    def _storage_of(self, tensor: Any) -> Storage | None:
        if tensor.dtype == tf.resource:
            variable = self._variables.of(tensor)
            return None if variable is None else variable.storage
        entry = self._tensors.get(id(tensor))
        return None if entry is None else entry.storage

    def _enter(self, tensor: Any, storage: Storage | None, *, made_up: bool) -> _Entry:
        key = id(tensor)

        def died(reference: Any) -> None:
            entry = self._tensors.get(key)
            if entry is not None and entry.reference is reference:
                del self._tensors[key]
                if entry.storage is not None:
                    self._release(entry.storage)

        entry = self._tensors[key] = _Entry(weakref.ref(tensor, died), storage, made_up)
        return entry

    def _allocate(self, size: int, category: int, phase: str) -> Storage:
        self.blocks.append((size, category))
        self.events.append(len(self.blocks))
        backward = None if phase == "backward" else self._backward
        return Storage(len(self.blocks) - 1, size, 1, backward, len(self.segments))

    def _release(self, storage: Storage) -> None:
        storage.holders -= 1
        if storage.holders:
            return
        self.events.append(-(storage.block + 1))
        size, category = self.blocks[storage.block]
        if category == _TEMPORARY and storage.backward is not None and storage.backward < self._backward:
            self.blocks[storage.block] = (size, _ACTIVATION)


def _typed(tensor: Any) -> tuple[tuple[int, ...], str]:
    return tuple(tensor.shape), tensor.dtype.base_dtype.name


def _bytes(tensor: Any) -> int:
    """Bytes of a tensor on the GPU; 0 of one on the host."""
    shape, dtype = _typed(tensor)
    return 0 if is_host(shape, dtype) else tensor_bytes(shape, dtype)
