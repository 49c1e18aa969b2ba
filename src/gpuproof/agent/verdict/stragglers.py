"""Finds the rank for which the others wait, and why it is slower.

Ranks that train together take the same steps, so the number of a step is their common clock: the clocks of hosts may differ by any
amount.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gpuproof.agent.verdict.bottlenecks import TROUBLING
from gpuproof.agent.verdict.evidence import RankSteps, Straggler
from gpuproof.agent.verdict.schema import Bottleneck, GpuVerdict
from gpuproof.util.humanize import format_share, pluralize

STRAGGLER = "straggler"

_LEAST_SHARE = 0.10
"""Ranks of sound jobs differ by a few percent: their batches and their machines are not equal."""
_LEAST_STEPS = 20
_LEAST_S = 1.0
_MOST_OF_IT = 0.6
"""A rank is the straggler if it caused this share of all waiting; otherwise each rank is late once in a while."""
_TOGETHER = 0.1
"""Ranks whose steps or times differ by more than this share do not train together."""
_HIDDEN = 0.98
"""If all own times are at least this share of the steps', waiting happens where no hook sees it, such as in a compiled step."""
_MOST_PARTS = 30
_HALF = 0.5
"""A phase is the cause if it explains this share of the waiting."""
_THROTTLED = 0.1
_LOWER_CLOCK = 0.9
_ALL_CORES = 0.9


class HostFacts(NamedTuple):
    """What is known about the host of a rank.

    Attributes:
        cores: how many the job kept busy on average; `None` if unknown.
    """

    gpus: Sequence[GpuVerdict] = ()
    cores: float | None = None
    cpu_count: int | None = None


def find_straggler(ranks: Sequence[RankSteps], hosts: Mapping[str | None, HostFacts]) -> Straggler | None:
    """The rank that makes the others wait; `None` if there is none, or if that cannot be seen.

    Args:
        ranks: of all hosts, each with its host's name, or with `None` on a single host.
        hosts: by the same names.
    """
    known = [rank for rank in ranks if rank.rank is not None and rank.windows]
    if len(known) < 2 or len({rank.rank for rank in known}) < len(known):
        return None
    curves = [_Curve.of(rank) for rank in known]
    steps = min(curve.steps for curve in curves)
    if steps < _LEAST_STEPS or not _together(curves):
        return None
    parts = min(_MOST_PARTS, max(len(rank.windows) for rank in known))
    caused, seconds = _waiting(curves, steps, parts)
    slowest = max(range(len(known)), key=lambda index: caused[index])
    waited = caused[slowest]
    if waited < max(_LEAST_S, _LEAST_SHARE * seconds) or waited < _MOST_OF_IT * sum(caused):
        return None
    rank = known[slowest]
    share = waited / seconds
    cause, why = _cause(rank, [other for other in known if other is not rank], share, hosts)
    assert rank.rank is not None
    return Straggler(
        rank.rank, rank.host, waited, cause, f"{_head(rank.rank, rank.host, share)}: {why}.", share
    )


def straggler_bottleneck(straggler: Straggler, ranks: int, seconds: float) -> Bottleneck:
    """The straggler as what limited the run.

    Args:
        ranks: how many there are.
        seconds: how long the run was monitored.
    """
    lost = straggler.waited_s * (ranks - 1) / ranks
    return Bottleneck(
        STRAGGLER,
        straggler.sentence,
        {
            "share": round(straggler.share, 4),
            "seconds": round(lost, 3),
            "run_share": round(lost / seconds, 4) if seconds > 0 else None,
            "rank": straggler.rank,
            "straggler_host": straggler.host,
            "cause": straggler.cause,
        },
        head=_head(straggler.rank, straggler.host, straggler.share),
    )


def _head(rank: int, host: str | None, share: float) -> str:
    where = f" on {host}" if host else ""
    return f"rank {rank}{where} makes the others wait {format_share(share)} of each step"


class _Curve(NamedTuple):
    """Totals of a rank after each of its windows, from step 0 on."""

    ends: tuple[float, ...]
    own: tuple[float, ...]
    input: tuple[float, ...]
    seconds: tuple[float, ...]

    @property
    def steps(self) -> float:
        return self.ends[-1]

    @classmethod
    def of(cls, rank: RankSteps) -> _Curve:
        ends, own, waited, seconds = [0.0], [0.0], [0.0], [0.0]
        for window in rank.windows:
            ends.append(ends[-1] + window.steps)
            own.append(own[-1] + window.own_s)
            waited.append(waited[-1] + window.input_s)
            seconds.append(seconds[-1] + window.seconds)
        return cls(tuple(ends), tuple(own), tuple(waited), tuple(seconds))

    def at(self, totals: Sequence[float], step: float) -> float:
        """A total after a step, interpolated within its window."""
        for index in range(1, len(self.ends)):
            if step <= self.ends[index]:
                part = (step - self.ends[index - 1]) / (self.ends[index] - self.ends[index - 1])
                return totals[index - 1] + part * (totals[index] - totals[index - 1])
        return totals[-1]


def _together(curves: Sequence[_Curve]) -> bool:
    """Whether ranks took the same steps in the same time: others do not wait for each other."""
    steps = [curve.steps for curve in curves]
    common = min(steps)
    seconds = [curve.at(curve.seconds, common) for curve in curves]
    return all(min(values) >= (1 - _TOGETHER) * max(values) for values in (steps, seconds))


def _waiting(curves: Sequence[_Curve], steps: float, parts: int) -> tuple[list[float], float]:
    """Seconds for which each rank made the others wait, on average, and of all steps.

    In each part of the run, the rank with the most time of its own is the one that the others wait for. Where waiting is hidden in a
    compiled step, the ranks' computations are taken as equal: then those differ whose input takes longer.
    """
    is_hidden = all(curve.own[-1] >= _HIDDEN * curve.seconds[-1] for curve in curves)
    caused, seconds = [0.0] * len(curves), 0.0
    for part in range(parts):
        first, last = part * steps / parts, (part + 1) * steps / parts
        own = [
            curve.at(totals, last) - curve.at(totals, first)
            for curve in curves
            for totals in (curve.input if is_hidden else curve.own,)
        ]
        slowest = max(range(len(own)), key=lambda index: own[index])
        others = [value for index, value in enumerate(own) if index != slowest]
        caused[slowest] += own[slowest] - sum(others) / len(others)
        seconds += max(curve.at(curve.seconds, last) - curve.at(curve.seconds, first) for curve in curves)
    return caused, seconds


def _cause(
    rank: RankSteps, others: Sequence[RankSteps], share: float, hosts: Mapping[str | None, HostFacts]
) -> tuple[str, str]:
    """The cause of the delay and a clause that describes it."""
    for phase, text in (
        ("input", "it waits {} of its time for input"),
        ("evaluation", "it evaluates for {} of its time"),
        ("checkpoint", "it saves checkpoints for {} of its time"),
    ):
        own = _phase_share(rank, phase)
        if own - _median([_phase_share(other, phase) for other in others]) >= _HALF * share:
            location = rank.locations.get(phase)
            line = f" ({location.what} at {location.path}:{location.line})" if location else ""
            return phase, text.format(format_share(own)) + line
    facts = hosts.get(rank.host, HostFacts())
    there = " there" if rank.host else ""
    gpu = _gpu_of(rank, facts)
    if gpu is not None and (lowered := _lowered_clock(gpu, others, hosts)) is not None:
        cause, text = lowered
        return cause, f"GPU {gpu.index}{there} {text}"
    if gpu is not None and gpu.ecc_errors:
        return "ecc", f"GPU {gpu.index}{there} had {pluralize(gpu.ecc_errors, 'memory error')} (ECC)"
    if facts.cores and facts.cpu_count and facts.cores >= _ALL_CORES * facts.cpu_count:
        return "cpu", f"all {facts.cpu_count} cores{there} are busy"
    return "unknown", "for no measured reason"


def _phase_share(rank: RankSteps, phase: str) -> float:
    return rank.total.phases.get(phase, 0.0) / rank.total.seconds


def _gpu_of(rank: RankSteps, facts: HostFacts) -> GpuVerdict | None:
    visible = sorted((gpu for gpu in facts.gpus if not gpu.hidden), key=lambda gpu: gpu.index)
    index = rank.local_rank
    if index is None:
        # One process has all GPUs of its host, and waits for the slowest.
        return max(visible, key=_throttled, default=None)
    return visible[index] if index < len(visible) else None


def _throttled(gpu: GpuVerdict) -> float:
    return max((share for reason, share in gpu.throttle.items() if reason in TROUBLING), default=0.0)


def _lowered_clock(
    gpu: GpuVerdict, others: Sequence[RankSteps], hosts: Mapping[str | None, HostFacts]
) -> tuple[str, str] | None:
    """Whether a GPU ran slower than it could, or than the others': the cause and what it did."""
    reasons = {reason: part for reason, part in gpu.throttle.items() if reason in TROUBLING}
    worst = max(reasons, key=lambda reason: reasons[reason], default=None)
    clock = gpu.intensity.clock_share if gpu.intensity is not None else None
    if worst is not None and reasons[worst] >= _THROTTLED:
        cause = "temperature" if "thermal" in worst else "clocks"
        if clock is not None:
            return cause, f"runs at {format_share(clock)} of its clock because of {worst}"
        return (
            cause,
            f"ran with lowered clocks for {format_share(reasons[worst])} of the time because of {worst}",
        )
    same = [_gpu_of(other, hosts.get(other.host, HostFacts())) for other in others]
    clocks = [
        other.intensity.clock_share
        for other in same
        if other is not None and other.intensity is not None and other.intensity.clock_share is not None
    ]
    if clock is not None and clocks and clock < _LOWER_CLOCK * _median(clocks):
        return (
            "clocks",
            f"runs at {format_share(clock)} of its clock, and the others' at {format_share(_median(clocks))}",
        )
    return None


def _median(values: Sequence[float]) -> float:
    ordered = sorted(values)
    return ordered[len(ordered) // 2] if ordered else 0.0
