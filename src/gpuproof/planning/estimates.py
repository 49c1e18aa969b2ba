"""What is estimated from a trace for one GPU: memory, whether it fits, and the time of a step."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Fit = Literal["fits", "borderline", "does-not-fit"]
Tier = Literal["calibrated", "one-anchor", "data-sheet"]
"""How a GPU's coefficients are known: fitted to measurements on it at this precision; to measurements at another precision
or on a GPU of the same architecture; or typical values, applied to the data sheet's."""
Bound = Literal["compute", "bandwidth", "launches", "input", "communication"]
"""What a step waits for most."""


@dataclass(frozen=True)
class Interval:
    """A value with its 80 % interval.

    Args:
        low: exceeded in 90 % of the cases.
        value: the best estimate.
        high: exceeded in 10 % of the cases.
    """

    low: float
    value: float
    high: float

    def __post_init__(self) -> None:
        if not self.low <= self.value <= self.high:
            raise ValueError(f"{self.low}, {self.value} and {self.high} are not in order")

    def times(self, factor: float) -> Interval:
        """The interval of a multiple."""
        return Interval(self.low * factor, self.value * factor, self.high * factor)

    def plus(self, other: Interval) -> Interval:
        """The interval of a sum, if both are low or high together."""
        return Interval(self.low + other.low, self.value + other.value, self.high + other.high)


@dataclass(frozen=True)
class MemoryEstimate:
    """Memory of one process on one GPU, in bytes.

    Args:
        required: what nvidia-smi would show at the peak: segments, workspaces and the CUDA context.
        allocated: largest sum of the tensors (`torch.cuda.max_memory_allocated`).
        reserved: largest sum of the allocator's segments (`torch.cuda.max_memory_reserved`).
        context: of the CUDA context, the libraries' kernels and their workspaces.
        by_category: allocated at the peak by `gpuproof.trace.document.CATEGORIES`.
        timeline: allocated over the last step, at most 200 points.
        out_of_memory: the replay found no room on this GPU; `reserved` is then that of a GPU without limit.
    """

    required: Interval
    allocated: int
    reserved: int
    context: Interval
    by_category: dict[str, int] = field(default_factory=dict[str, int])
    timeline: list[int] = field(default_factory=list[int])
    out_of_memory: bool = False


@dataclass(frozen=True)
class FitResult:
    """Whether a job fits into a GPU's memory.

    Args:
        fit: `fits` if even the upper limit of what is required is usable; `does-not-fit` if the estimate itself is more.
        usable: bytes that processes can have, which is less than the nominal size.
        headroom: usable bytes that the estimate leaves, negative if it does not fit.
        probability: that it fits, from 0 to 1, according to the interval.
    """

    fit: Fit
    usable: int
    headroom: int
    probability: float


@dataclass(frozen=True)
class StepTime:
    """Time of one step, in seconds.

    Args:
        step: of one step.
        gpu_s: the GPU's kernels, without waiting.
        launch_s: of the host, to launch them.
        input_s: of the input pipeline, with its workers; None if it was not measured.
        communication_s: of collectives that computation does not hide.
        bound: what takes longest.
        by_class: of the GPU by `gpuproof.trace.document.CLASSES`.
        tier: how the GPU's coefficients are known.
    """

    step: Interval
    gpu_s: float
    launch_s: float
    input_s: float | None
    communication_s: float
    bound: Bound
    by_class: dict[str, float]
    tier: Tier


@dataclass(frozen=True)
class FitOption:
    """A change of a script that needs less memory.

    Args:
        code: `amp`, `checkpointing`, `amp,checkpointing`, `8-bit-optimizer` or `smaller-batch`.
        description: for people.
        batch: samples on each GPU; None if that is not known.
        memory: what each GPU needs then.
        fit: whether it has that.
        step: time of a step then.
    """

    code: str
    description: str
    batch: int | None
    memory: MemoryEstimate
    fit: FitResult
    step: StepTime


@dataclass(frozen=True)
class FitOptions:
    """What would make a script fit on a GPU.

    Args:
        gpu: its name.
        options: those that are sure to fit first, and of these the fastest for a sample.
        not_traced: changes that could not be traced, with the reason.
    """

    gpu: str
    options: tuple[FitOption, ...]
    not_traced: tuple[str, ...] = ()
