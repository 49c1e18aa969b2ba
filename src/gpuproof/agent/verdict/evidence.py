"""What a verdict rests on beyond occupancy: what busy GPUs did, where the time of the steps went, and the FLOPs achieved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from gpuproof.gpu.intensity import Intensity

WORKING = "working"
"""It computed for the job."""
LAUNCH_BOUND = "launch-bound"
"""It computed, with kernels so short that it mostly waited for the next one."""
COPY_BOUND = "copy-bound"
"""It computed, and mostly waited for copies from or to the host."""
FEW_MULTIPROCESSORS = "few-multiprocessors"
"""A kernel kept it busy on a few of its multiprocessors."""
COPYING = "copying"
"""It only copied memory."""
WAITING = "waiting"
"""It waited for other ranks in collective operations."""
NO_WORK = frozenset({FEW_MULTIPROCESSORS, COPYING, WAITING})
"""Kinds of activity that are no work."""
UNDECIDED = "undecided"
"""The evidence does not say what it did."""

MEASURED = "measured"
"""Hardware counters of the multiprocessors (NVML's GPM, or DCGM's profiling fields)."""
INFERRED = "inferred"
"""Power, clocks, memory utilization and PCIe traffic, which have one likely explanation."""

PHASES = (
    *("input", "copy", "forward", "backward", "optimizer", "communication"),
    *("evaluation", "checkpoint", "rest"),
)
"""Where the time of a training step goes; `rest` is what no other phase explains."""
SYNCHRONIZATION = "synchronization"
"""A location that is not that of a phase: a call that waits for the GPU, within whichever phase it is."""


@dataclass(frozen=True)
class Activity:
    """What a busy GPU did.

    Args:
        kind: `working`, `launch-bound`, `copy-bound`, `few-multiprocessors`, `copying`, `waiting` or `undecided`.
        certainty: `measured`, `inferred` or `undecided`.
        sentence: for people, such as "busy 98 %, working 1 %: one kernel occupies 1 of 108 multiprocessors".
        busy_share: share of the active window in which a kernel ran.
        working_share: share of the GPU's multiprocessors that worked, over the same time; `None` if it is not measured.
    """

    kind: str
    certainty: str
    sentence: str
    busy_share: float | None = None
    working_share: float | None = None

    @property
    def is_no_work(self) -> bool:
        """Whether a busy GPU certainly did no work."""
        return self.kind in NO_WORK and self.certainty == MEASURED

    @property
    def is_doubtful(self) -> bool:
        """Whether it probably did no work."""
        return self.kind in NO_WORK and self.certainty == INFERRED


@dataclass(frozen=True)
class Mfu:
    """Model FLOPs utilization: the FLOPs of the model's steps per second, as a share of the peak of all working GPUs.

    Source: Chowdhery et al., PaLM, 2022, appendix B.

    Args:
        share: from 0 to 1.
        flops_per_step: of all ranks together, without recomputation.
        step_s: mean time of a step, in seconds.
        peak_flops: dense peak of all working GPUs for this precision, in FLOP/s.
        precision: `bfloat16`, `float16`, `tf32`, `float32` or `float8`.
        source: where `flops_per_step` comes from: `plan`, `script` or the name of a framework's own count.
        lower_bound: the share is at least this, because the script computes in float32 and it is unknown whether as TF32.
    """

    share: float
    flops_per_step: float
    step_s: float
    peak_flops: float
    precision: str
    source: str
    lower_bound: bool = False


@dataclass(frozen=True)
class StepTimes:
    """The steps of an epoch, or of a run, and where their time went.

    Args:
        steps: how many.
        seconds: of wall clock, from the first of them to the last.
        phases: seconds by phase (`PHASES`), which add up to `seconds`.
        epoch: from 0; `None` for the whole run.
    """

    steps: int
    seconds: float
    phases: Mapping[str, float]
    epoch: int | None = None


@dataclass(frozen=True)
class CodeLocation:
    """A line of the script that explains a phase.

    Args:
        path: relative to the source folder.
        what: such as `DataLoader` or `.item()`.
        count: how often it ran; `seconds` how long it took in total.
        settings: what matters of its arguments, such as `{"num_workers": 0}`.
    """

    path: str
    line: int
    what: str
    count: int = 0
    seconds: float = 0.0
    settings: Mapping[str, str | float | int | bool | None] = field(default_factory=dict)


@dataclass(frozen=True)
class StepWindow:
    """Consecutive steps of a rank.

    Args:
        ended: end of the last one, in seconds since the epoch, by the clock of the rank's host.
        seconds: of wall clock; `own_s` without waiting for other ranks; `input_s` waiting for input.
    """

    ended: float
    steps: int
    seconds: float
    own_s: float
    input_s: float = 0.0


@dataclass(frozen=True)
class RankSteps:
    """The steps of one rank.

    Args:
        rank: `None` without a launcher.
        epochs: empty in a verdict, which has their means over the ranks.
        loop: what ran the steps: `pytorch`, `transformers`, `lightning`, `accelerate`, `keras` or `tensorflow`.
        clock: `cuda` (CUDA events) or `cpu`.
        locations: by what they explain: a phase, or `synchronization`.
        median_step_s: median time of a step, and `own_step_s` of what the rank did itself, without waiting for others.
        local_rank: its number on its host, which is that of its GPU among the visible ones; `None` without a launcher.
        windows: its steps over time, to compare ranks; empty in the verdict on a job with several hosts.
    """

    rank: int | None
    host: str | None
    loop: str
    clock: str
    total: StepTimes
    epochs: tuple[StepTimes, ...] = ()
    locations: Mapping[str, CodeLocation] = field(default_factory=dict)
    median_step_s: float | None = None
    own_step_s: float | None = None
    local_rank: int | None = None
    windows: tuple[StepWindow, ...] = ()

    @property
    def is_compiled(self) -> bool:
        """Whether `forward` has the whole step: forward, backward and optimizer in one function of TensorFlow or XLA."""
        phases = self.total.phases
        return (
            self.loop in ("keras", "tensorflow")
            and phases.get("forward", 0.0) > 0
            and not phases.get("backward")
            and not phases.get("optimizer")
        )


@dataclass(frozen=True)
class Straggler:
    """The rank for which the others waited.

    Args:
        waited_s: how long the others waited for it, on average; `share` of the time of the steps, from 0 to 1.
        cause: `clocks`, `temperature`, `input`, `evaluation`, `checkpoint`, `cpu` or `unknown`.
    """

    rank: int
    host: str | None
    waited_s: float
    cause: str
    sentence: str
    share: float = 0.0


@dataclass(frozen=True)
class Steps:
    """Where the time of a run's steps went: means over its ranks."""

    total: StepTimes
    epochs: tuple[StepTimes, ...] = ()
    ranks: tuple[RankSteps, ...] = ()
    straggler: Straggler | None = None


@dataclass(frozen=True)
class RunEvent:
    """Something that happened during a run.

    Args:
        seconds: since monitoring began on the host.
        kind: `first-use`, `epoch`, `evaluation`, `checkpoint`, `lost-gpu`, `stop`, `gpu-unused`, `failure` or `end`.
        label: for people, such as `epoch 3`; epochs are counted from 1.
        host: where it happened; `None` in the verdict of a single host.
    """

    seconds: float
    kind: str
    label: str
    host: str | None = None


def intensity_from(value: Mapping[str, Any] | None) -> Intensity | None:
    """Convert `asdict` of an `Intensity` back; unknown keys are ignored. The functions below do the same for their types."""
    return Intensity(**known_fields(Intensity, value)) if value else None


def activity_from(value: Mapping[str, Any] | None) -> Activity | None:
    return Activity(**known_fields(Activity, value)) if value else None


def mfu_from(value: Mapping[str, Any] | None) -> Mfu | None:
    return Mfu(**known_fields(Mfu, value)) if value else None


def steps_from(value: Mapping[str, Any] | None) -> Steps | None:
    if not value:
        return None
    straggler = value.get("straggler")
    return Steps(
        total=_times(value["total"]),
        epochs=tuple(_times(epoch) for epoch in value.get("epochs", ())),
        ranks=tuple(rank_steps_from(rank) for rank in value.get("ranks", ())),
        straggler=Straggler(**known_fields(Straggler, straggler)) if straggler else None,
    )


def rank_steps_from(value: Mapping[str, Any]) -> RankSteps:
    known = known_fields(RankSteps, value)
    known.update(
        total=_times(value["total"]),
        epochs=tuple(_times(epoch) for epoch in value.get("epochs", ())),
        locations={
            name: CodeLocation(**known_fields(CodeLocation, location))
            for name, location in value.get("locations", {}).items()
        },
        windows=tuple(StepWindow(**known_fields(StepWindow, window)) for window in value.get("windows", ())),
    )
    return RankSteps(**known)


def known_fields(kind: Any, value: Mapping[str, Any]) -> dict[str, Any]:
    """The items of a mapping that are fields of a dataclass."""
    names = {each.name for each in fields(kind)}
    return {name: item for name, item in value.items() if name in names}


def _times(value: Mapping[str, Any]) -> StepTimes:
    return StepTimes(**known_fields(StepTimes, value))
