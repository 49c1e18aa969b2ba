"""Replays a trace's allocations through the simulator of the caching allocator."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from gpuproof.planning.memory.caching_allocator import CachingAllocator, OutOfMemory
from gpuproof.trace.document import CATEGORIES, CUBLAS_WORKSPACE, Memory

_WORKSPACE = CATEGORIES.index("workspace")
POINTS = 200
"""Most points of a timeline."""


@dataclass(frozen=True)
class Replay:
    """What an allocator did, in bytes.

    Args:
        allocated: largest sum of the blocks in use, rounded as the allocator does.
        reserved: largest sum of its segments.
        by_category: allocated at that moment.
        timeline: allocated over the last step; of each stretch of events, the largest value.
        out_of_memory: a block found no room; the figures are those until then.
    """

    allocated: int
    reserved: int
    by_category: dict[str, int]
    timeline: list[int]
    out_of_memory: bool = False


def replay(memory: Memory, capacity: int | None = None, *, workspace: int = CUBLAS_WORKSPACE) -> Replay:
    """Allocate and free as the trace did.

    Args:
        memory: of a trace.
        capacity: bytes that the allocator may reserve; unlimited if None.
        workspace: bytes of each workspace of cuBLAS.
    """
    allocator = CachingAllocator(capacity)
    sizes = [0] * len(CATEGORIES)
    at_peak = list(sizes)
    history: list[int] = []
    last_step: list[int] = []
    peak, full = 0, False
    for event in memory.events:
        if event == 0:
            last_step, history = history, []
            continue
        block = abs(event) - 1
        size, category = memory.blocks[block]
        size = workspace if category == _WORKSPACE else size
        before = allocator.allocated
        if event > 0:
            try:
                allocator.allocate(block, size, communication=block in memory.communication)
            except OutOfMemory:
                full = True
                break
        else:
            allocator.free(block)
        sizes[category] += allocator.allocated - before
        history.append(allocator.allocated)
        if allocator.allocated > peak:
            peak, at_peak = allocator.allocated, list(sizes)
    by_category = {name: size for name, size in zip(CATEGORIES, at_peak, strict=True) if size}
    timeline = _shortened(last_step or history)
    return Replay(allocator.peak_allocated, allocator.peak_reserved, by_category, timeline, full)


def _shortened(values: list[int]) -> list[int]:
    if len(values) <= POINTS:
        return values
    limits = [len(values) * index // POINTS for index in range(POINTS + 1)]
    return [max(values[start:end]) for start, end in pairwise(limits)]
