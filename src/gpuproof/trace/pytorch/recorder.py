"""Records allocations, frees and operators in their order."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any

from gpuproof.trace.document import CATEGORIES, CUBLAS_WORKSPACE, Memory, Operator

_FORWARD, _BACKWARD, _OPTIMIZER, _OTHER = "forward", "backward", "optimizer", "other"
_TEMPORARY = CATEGORIES.index("temporary")
_ACTIVATION = CATEGORIES.index("activation")


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


class Recorder:
    """What happened on the GPU so far.

    Attributes:
        phase: what the script does now, one of `PHASES`.
        host_operators: operators so far, views included.
        batches: batches that the script has taken from its loader.
        marks: the ends of steps.
    """

    def __init__(self) -> None:
        self.phase = _OTHER
        self.host_operators = 0
        self.batches = 0
        self.marks: list[Mark] = []
        self._blocks: list[tuple[int, int]] = []
        self._events: list[int] = []
        self._calls: list[Call] = []
        self._known: dict[int, tuple[weakref.ref[Any], int]] = {}
        self._empty: dict[int, weakref.ref[Any]] = {}
        """Storages on the GPU without a byte, which are no blocks."""
        self._forward: set[int] = set()
        """Blocks of a forward pass that were there when the backward pass began."""
        self._alive: dict[int, None] = {}
        self._with_workspace: set[bool] = set()
        """Whether the backward pass, and the rest, have called cuBLAS."""
        self._sent = 0.0

    def is_allocated(self, tensor: Any) -> bool:
        """Whether a tensor is in the GPU's memory."""
        storage = tensor.untyped_storage()
        empty = self._empty.get(id(storage))
        return self._index(storage) is not None or (empty is not None and empty() is storage)

    def allocate(self, tensor: Any, category: str) -> None:
        """Record the memory of a tensor; nothing if it has none or is known."""
        storage = tensor.untyped_storage()
        if self._index(storage) is not None:
            return
        size, key = storage.nbytes(), id(storage)
        if size == 0:
            self._empty[key] = weakref.ref(storage, lambda _: self._empty.pop(key, None))
            return
        index = self._add_block(size, category)
        self._alive[index] = None

        def free(_: Any) -> None:
            if self._known.get(key, (None, -1))[1] == index:
                del self._known[key]
            self._alive.pop(index, None)
            self._events.append(-(index + 1))

        self._known[key] = (weakref.ref(storage, free), index)

    def classify(self, tensor: Any, category: str) -> None:
        """Say what the memory of a tensor is for."""
        index = self._index(tensor.untyped_storage())
        if index is not None:
            self._blocks[index] = (self._blocks[index][0], CATEGORIES.index(category))

    def reserve_workspace(self) -> None:
        """Record cuBLAS's workspace, which each thread that calls it keeps: the script's, and that of the backward pass."""
        in_backward = self.phase == _BACKWARD
        if in_backward not in self._with_workspace:
            self._with_workspace.add(in_backward)
            self._alive[self._add_block(CUBLAS_WORKSPACE, "workspace")] = None

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
        self.phase = phase

    def mark(self) -> Mark:
        """Note that a step could end here."""
        counts = len(self._events), len(self._calls), self.host_operators
        return Mark(*counts, self.batches, self._sent, len(self._blocks))

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
    def allocated(self) -> int:
        """Bytes in use now."""
        return sum(self._blocks[index][0] for index in self._alive)

    @property
    def has_calls(self) -> bool:
        """Whether an operator ran on the GPU."""
        return bool(self._calls)

    def _add_block(self, size: int, category: str) -> int:
        self._blocks.append((size, CATEGORIES.index(category)))
        self._events.append(len(self._blocks))
        return len(self._blocks) - 1

    def _index(self, storage: Any) -> int | None:
        known = self._known.get(id(storage))
        return known[1] if known is not None and known[0]() is storage else None
