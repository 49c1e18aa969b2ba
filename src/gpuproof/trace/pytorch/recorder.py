"""Records allocations, frees and operators in their order."""

from __future__ import annotations

import sys
import weakref
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch.utils.weak import WeakIdKeyDictionary

from gpuproof.trace.document import CATEGORIES, CUBLAS_WORKSPACE, Memory, Operator

_FORWARD, _BACKWARD, _OPTIMIZER, _OTHER = "forward", "backward", "optimizer", "other"
_TEMPORARY = CATEGORIES.index("temporary")
_ACTIVATION = CATEGORIES.index("activation")
_PARAMETER = CATEGORIES.index("parameter")
_PLACE = 8
"""Bytes of an index of a sparse tensor."""


@dataclass(frozen=True)
class Call:
    """One call of an operator; the members are those of `Operator`."""

    name: str
    kind: str
    dtype: str
    phase: str
    flops: float
    bytes: float
    kernels: int
    shapes: tuple[tuple[int, ...], ...]
    gemm: tuple[int, ...]
    layout: str


@dataclass(frozen=True)
class Mark:
    """The end of a step.

    Args:
        events: how many allocations and frees there were.
        calls: how many calls of operators.
        host_operators: how many operators, views included.
        batches: how many batches were taken.
        sent: bytes that collectives sent.
        blocks: how many blocks of memory were allocated.
    """

    events: int
    calls: int
    host_operators: int
    batches: int
    sent: float
    blocks: int = 0


@dataclass(frozen=True)
class Recording:
    """What ran on the GPU between two moments.

    Args:
        blocks: (bytes, index in `CATEGORIES`) of each block that was allocated.
        events: allocations and frees of these blocks, as in `Memory`.
        kept: indices of the blocks that were in use at the end.
        calls: of operators.
        host_operators: operators, views included.
    """

    blocks: list[tuple[int, int]]
    events: list[int]
    kept: list[int]
    calls: list[Call]
    host_operators: int


class Recorder:
    """What happened on the GPU so far.

    Attributes:
        phase: what the script does now, one of `PHASES`.
        host_operators: operators so far, views included.
        batches: batches that the script has taken from its loader.
        marks: the ends of steps.
        allocated: bytes in use now.
    """

    def __init__(self) -> None:
        self.phase = _OTHER
        self.host_operators = 0
        self.batches = self.allocated = 0
        self.marks: list[Mark] = []
        self._blocks: list[tuple[int, int]] = []
        self._events: list[int] = []
        self._calls: list[Call] = []
        self._known: dict[int, tuple[weakref.ref[Any], int]] = {}
        self._sparse: Any = WeakIdKeyDictionary()
        self._empty: dict[int, weakref.ref[Any]] = {}
        """Storages on the GPU without a byte, which are no blocks."""
        self._forward: set[int] = set()
        """Blocks of a forward pass that were there when the backward pass began."""
        self._gradients = range(0)
        """Blocks that the last backward pass has allocated."""
        self._alive: dict[int, None] = {}
        self._with_workspace: set[bool] = set()
        """Whether the backward pass, and the rest, have called cuBLAS."""
        self._sent = 0.0

    def is_allocated(self, tensor: Any) -> bool:
        """Whether a tensor is in the GPU's memory."""
        storage = _memory_of(tensor)
        empty = self._empty.get(id(storage))
        return self._index(storage) is not None or (empty is not None and empty() is storage)

    def allocate(self, tensor: Any, category: str) -> None:
        """Record the memory of a tensor; nothing if it has none or is known."""
        storage = _memory_of(tensor)
        if self._index(storage) is not None:
            return
        size = self.bytes_of(tensor) if storage is tensor else storage.nbytes()
        key = id(storage)
        if size == 0:
            self._empty[key] = weakref.ref(storage, lambda _: self._empty.pop(key, None))
            return
        self._keep(storage, self._add_block(size, category))

    def set_sparse(self, tensor: Any, values: int) -> None:
        """Say how many values a sparse tensor has, which a tensor without values does not know."""
        self._sparse[tensor] = values

    def values_of_sparse(self, tensor: Any) -> int:
        """How many values, or rows of values, a sparse tensor has."""
        return self._sparse.get(tensor, 0)

    def bytes_of(self, tensor: Any) -> int:
        """Bytes of a tensor's numbers; of a sparse one, those of its values and their places."""
        if tensor.layout is torch.strided:
            return tensor.numel() * tensor.element_size()
        rows = self.values_of_sparse(tensor)
        return rows * (
            _PLACE * tensor.sparse_dim() + prod(tensor.shape[tensor.sparse_dim() :]) * tensor.element_size()
        )

    def is_weight(self, tensor: Any) -> bool:
        """Whether a tensor is a parameter, or was computed by the last backward pass."""
        index = self._index(_memory_of(tensor))
        return index is not None and (self._blocks[index][1] == _PARAMETER or index in self._gradients)

    def classify(self, tensor: Any, category: str) -> None:
        """Say what the memory of a tensor is for."""
        index = self._index(_memory_of(tensor))
        if index is not None:
            self._blocks[index] = (self._blocks[index][0], CATEGORIES.index(category))

    def reserve_workspace(self) -> None:
        """Record cuBLAS's workspace, which each thread that calls it keeps: the script's, and that of the backward pass."""
        in_backward = self.phase == _BACKWARD
        if in_backward not in self._with_workspace:
            self._with_workspace.add(in_backward)
            self._alive[self._add_block(CUBLAS_WORKSPACE, "workspace")] = None
            self.allocated += CUBLAS_WORKSPACE

    def use_temporarily(self, size: int) -> None:
        """Record memory that an operator takes only while it runs."""
        if size:
            self._events.append(-1 - self._add_block(size, "temporary"))

    def call(self, call: Call) -> None:
        """Record a call of an operator."""
        self._calls.append(call)

    def send(self, size: float) -> None:
        """Record bytes that a collective sends from this GPU."""
        self._sent += size

    def enter(self, phase: str) -> None:
        """Begin a phase of a step."""
        if phase == _BACKWARD and self.phase != _BACKWARD:
            self._forward.update(self._alive)
            self._gradients = range(len(self._blocks), sys.maxsize)
        elif self.phase == _BACKWARD and phase != _BACKWARD:
            self._gradients = range(self._gradients.start, len(self._blocks))
        self.phase = phase

    def mark(self) -> Mark:
        """Note that a step could end here."""
        counts = len(self._events), len(self._calls), self.host_operators
        return Mark(*counts, self.batches, self._sent, len(self._blocks))

    def block_of(self, tensor: Any, since: Mark) -> int | None:
        """Index of a tensor's block among those that were allocated since a mark; None if it is none of them."""
        index = self._index(_memory_of(tensor))
        return None if index is None or index < since.blocks else index - since.blocks

    def is_in_use(self, block: int) -> bool:
        """Whether a block, numbered from the start of the script, is not free yet."""
        return block in self._alive

    def recording(self, since: Mark) -> Recording:
        """What ran since a mark."""
        first = since.blocks
        return Recording(
            self._blocks[first:],
            [
                event - first if event > 0 else event + first
                for event in self._events[since.events :]
                if abs(event) > first
            ],
            [index - first for index in self._alive if index >= first],
            self._calls[since.calls :],
            self.host_operators - since.host_operators,
        )

    def repeat(self, recording: Recording, tensors: dict[int, Any], *, with_memory: bool) -> None:
        """Record the same once more.

        Args:
            recording: what to repeat.
            tensors: the new ones, by the block that they take.
            with_memory: whether to record the blocks that are free again at the end.
        """
        self._calls += recording.calls
        self.host_operators += recording.host_operators
        first = len(self._blocks)
        if with_memory:
            self._blocks += recording.blocks
            self._events += [event + first if event > 0 else event - first for event in recording.events]
        for index in recording.kept:
            size, category = recording.blocks[index]
            if index not in tensors:
                if with_memory:
                    self._events.append(-(first + index + 1))
                continue
            kept = first + index if with_memory else self._add_block(size, CATEGORIES[category])
            self._keep(tensors[index].untyped_storage(), kept)

    def discard(self, since: Mark) -> None:
        """Forget what happened since a mark, except for memory that is still in use."""
        kept = [
            event
            for event in self._events[since.events :]
            if (event - 1 in self._alive if event > 0 else -event - 1 < since.blocks)
        ]
        self._events[since.events :] = kept
        del self._calls[since.calls :]
        self.host_operators = since.host_operators

    def operators(self, first: Mark, last: Mark) -> list[Operator]:
        """The operators between two marks, each with its number of calls."""
        counts: dict[Call, int] = {}
        for call in self._calls[first.calls : last.calls]:
            counts[call] = counts.get(call, 0) + 1
        return [
            Operator(
                *(call.name, call.kind, call.dtype, call.phase, call.flops, call.bytes, call.kernels),
                shapes=call.shapes,
                calls=count,
                gemm=call.gemm,
                layout=call.layout,
            )
            for call, count in counts.items()
        ]

    def memory(self, marks: list[Mark]) -> Memory:
        """Allocations and frees until the last mark."""
        blocks = [
            (size, _TEMPORARY if category == _ACTIVATION and index not in self._forward else category)
            for index, (size, category) in enumerate(self._blocks)
        ]
        events: list[int] = []
        before = 0
        for mark in marks:
            events += self._events[before : mark.events]
            events.append(0)
            before = mark.events
        used = max((abs(event) for event in events), default=0)
        return Memory(blocks[:used], events)

    @property
    def has_calls(self) -> bool:
        """Whether an operator ran on the GPU."""
        return bool(self._calls)

    def _add_block(self, size: int, category: str) -> int:
        self._blocks.append((size, CATEGORIES.index(category)))
        self._events.append(len(self._blocks))
        return len(self._blocks) - 1

    def _keep(self, storage: Any, index: int) -> None:
        """Let a block be in use as long as a storage exists."""
        key, size = id(storage), self._blocks[index][0]
        self._alive[index] = None
        self.allocated += size

        def free(_: Any) -> None:
            if self._known.get(key, (None, -1))[1] == index:
                del self._known[key]
            self._alive.pop(index, None)
            self.allocated -= size
            self._events.append(-(index + 1))

        self._known[key] = (weakref.ref(storage, free), index)

    def _index(self, storage: Any) -> int | None:
        known = self._known.get(id(storage))
        return known[1] if known is not None and known[0]() is storage else None


def _memory_of(tensor: Any) -> Any:
    """What exists as long as a tensor's memory is in use: its storage; a sparse one has none itself."""
    return tensor.untyped_storage() if tensor.layout is torch.strided else tensor
