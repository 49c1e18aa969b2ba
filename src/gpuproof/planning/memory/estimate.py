"""Memory that a trace needs on a GPU, and whether that fits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from math import erf, sqrt

from gpuproof.catalogue.model import Gpu
from gpuproof.planning.coefficients import Coefficients, builtin_coefficients, usable_memory
from gpuproof.planning.estimates import FitResult, Interval, MemoryEstimate
from gpuproof.planning.memory.replay import Replay, replay
from gpuproof.trace.document import CUBLAS_WORKSPACE, Memory, Trace

_NORMAL_90 = 1.2816
"""Standard deviations between the value and a limit of an 80 % interval, if errors are normally distributed."""
_RESERVED_MIB = 2
"""Smallest limit of the allocator: one small segment."""
_LARGE_WORKSPACE = 32 << 20
_LARGE_WORKSPACE_CAPABILITIES = (9, 0), (12, 0)
"""Hopper, and Blackwell of data centers."""


def estimate_memory(
    trace: Trace,
    gpu: Gpu,
    *,
    fraction: float = 1.0,
    cuda: str | None = None,
    coefficients: Coefficients | None = None,
    unlimited: Replay | None = None,
) -> MemoryEstimate:
    """Memory of one process on one GPU; of TensorFlow, what it needs, not what it takes.

    Args:
        trace: of what this GPU does: of FSDP, `sharded` first.
        gpu: of the catalogue.
        fraction: of the GPU that the instance has.
        cuda: version such as `12.8`; recent if unknown.
        coefficients: the built-in ones if None.
        unlimited: what `unlimited_replays(trace.memory)` returns for this GPU, to replay once for many of them.
    """
    known = coefficients or builtin_coefficients()
    context = known.context(gpu.name, cuda)
    workspace = workspace_bytes(gpu)
    free = unlimited or replay(trace.memory, workspace=workspace)
    capacity = max(usable_memory(gpu, fraction) - int(context.value), _RESERVED_MIB << 20)
    if trace.framework == "tensorflow":
        # Its allocator takes the whole GPU at the start and merges what is free, so a job needs little more than what is in use.
        free = limited = replace(free, reserved=free.allocated, out_of_memory=free.allocated > capacity)
    else:
        limited = free if free.reserved <= capacity else replay(trace.memory, capacity, workspace=workspace)
    shown = free if limited.out_of_memory else limited
    low, high = known.memory["spread"]
    required = Interval(
        shown.reserved * low + context.low,
        shown.reserved + context.value,
        shown.reserved * high + context.high,
    )
    return MemoryEstimate(
        known.corrected("memory", required, gpu.name),
        free.allocated,
        shown.reserved,
        context,
        free.by_category,
        free.timeline,
        limited.out_of_memory,
    )


def workspace_bytes(gpu: Gpu) -> int:
    """Bytes of each workspace that PyTorch reserves for cuBLAS on a GPU.

    Source: https://docs.pytorch.org/docs/stable/notes/cuda.html#cublas-workspaces
    """
    first, last = _LARGE_WORKSPACE_CAPABILITIES
    return _LARGE_WORKSPACE if first <= (gpu.compute_capability or (0, 0)) < last else CUBLAS_WORKSPACE


def unlimited_replays(memory: Memory) -> Callable[[Gpu], Replay]:
    """A function that replays a trace without a limit, once for all GPUs with workspaces of one size."""

    @cache
    def replay_with(workspace: int) -> Replay:
        return replay(memory, workspace=workspace)

    return lambda gpu: replay_with(workspace_bytes(gpu))


def fit(memory: MemoryEstimate, gpu: Gpu, *, fraction: float = 1.0) -> FitResult:
    """Whether it fits: surely, perhaps, or not.

    Args:
        memory: what was estimated for this GPU.
        gpu: of the catalogue.
        fraction: of the GPU that the instance has.
    """
    usable = usable_memory(gpu, fraction)
    required = memory.required
    headroom = usable - round(required.value)
    if memory.out_of_memory or headroom < 0:
        return FitResult("does-not-fit", usable, headroom, _probability(required, usable))
    fits = required.high <= usable
    return FitResult("fits" if fits else "borderline", usable, headroom, _probability(required, usable))


def _probability(required: Interval, usable: int) -> float:
    side = required.high if usable >= required.value else required.low
    deviation = abs(side - required.value) / _NORMAL_90
    if deviation == 0:
        return float(required.value <= usable)
    return (1 + erf((usable - required.value) / deviation / sqrt(2))) / 2
