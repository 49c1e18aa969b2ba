"""The verdict on what was billed, from values of CloudWatch: the words of `gpuproof run`, with the thresholds that values by the minute allow.

SageMaker publishes one value a minute for each host: the utilization of its GPUs, summed. From such a sum follows

- that GPUs worked, by the same thresholds as in a run: a minute of work, or 1 % of the time;
- how many worked at least: a sum of 250 % needs three GPUs;
- never how many worked at most: a sum of 400 % may be four GPUs of eight, or eight that wait half of the time.

So a host of whose GPUs some may have been idle is `partly used` only where the sum stays just below a multiple of 100 % that half of its
GPUs can have, and `is_certain` is False: the number of idle GPUs is then an upper bound. A spinning kernel that does no work (`occupied` in a
run) counts as work here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from gpuproof.account.audit.usage import HostUsage
from gpuproof.agent.verdict import CPU_ONLY, IDLE, PARTLY_USED, UNKNOWN, USED
from gpuproof.util.humanize import format_duration, host_list, pluralize

NOT_MEASURED = "not measured"
"""No utilization was published, or it has expired."""

ENOUGH_BUSY_S = 60.0
"""Seconds of work, summed over the GPUs of a host, that always count as work: as in a run."""

MIN_BUSY_SHARE = 0.01
"""Less work than this share of the time is almost none, unless it is ENOUGH_BUSY_S: as in a run."""

MIN_BUSY_S = 0.5
"""Less than this is opening a GPU: as in a run. It is 0.8 % of one value by the minute."""

OPEN_MEMORY_PERCENT = 0.25
"""Percent of one GPU's memory from which a program has opened a GPU.

A CUDA context takes 200 MiB at least, which is 0.25 % of 80 GB; a GPU that no program has opened shows 0 to 4 MiB.
"""

SEEN_ENOUGH = 0.9
"""A host that was idle for this share of the time counts as idle, whatever it did while no values arrived: as in a run."""

UNSATURATED = 20.0
"""Percent by which the median of busy minutes may be below k times 100 %, while none is above it, for `probably only k GPUs worked`.

Only for at most half of the GPUs: eight GPUs that are busy for 85 % of the time look like seven that always are, and are far more
common. Half of a host's GPUs could have done the work in any case.
"""

ROUNDING = 2.0
"""Percent by which a sum may exceed what its GPUs can have: rounded values, and periods that do not match."""


@dataclass(frozen=True)
class Judgement:
    """The verdict on one thing that was billed.

    Args:
        outcome: a word of `gpuproof run`, or `not measured`.
        reason: a sentence.
        remedy: what to check or do next; None if nothing is wrong.
        gpus: how many there are; None if unknown.
        working: how many GPUs worked at least.
        idle: how many GPUs did no work, at most.
        is_certain: whether exactly so many were idle; False if it is an upper bound.
        wasted_share: the share of the cost that paid for GPUs without work, from 0 to 1: an upper bound if not `is_certain`.
        mean, p90: percent of all GPUs, over all hosts; None if they were not measured.
        cpu_cores: mean number of busy CPU cores of a host; None if unknown.
    """

    outcome: str
    reason: str
    remedy: str | None = None
    gpus: int | None = None
    working: int = 0
    idle: int = 0
    is_certain: bool = True
    wasted_share: float = 0.0
    mean: float | None = None
    p90: float | None = None
    cpu_cores: float | None = None


_CPU_REMEDY = (
    'Check the framework of its image: torch.cuda.is_available(), or tf.config.list_physical_devices("GPU"); or choose an instance '
    "without a GPU."
)
_IDLE_REMEDY = "Check that the model and its batches are on the GPU: model.device, .to(device)."
_PARTLY_REMEDY = "Start one process for each GPU (torchrun, or SageMaker's `distribution`), or choose an instance with fewer GPUs."


class _Means(NamedTuple):
    """Means over all hosts: see `Judgement`."""

    mean: float | None
    p90: float | None
    cpu_cores: float | None


def judge(hosts: Sequence[HostUsage], seconds: float, *, expected_hosts: int | None = None) -> Judgement:
    """The verdict.

    Args:
        hosts: the usage of each host, or of each GPU.
        seconds: how long its program could use the GPUs.
        expected_hosts: how many hosts, or GPUs, there are; as many as `hosts` if None.
    """
    means = _means(hosts)
    return replace(_judge(hosts, seconds, expected_hosts, means), **means._asdict())


def _judge(
    hosts: Sequence[HostUsage], seconds: float, expected_hosts: int | None, means: _Means
) -> Judgement:
    measured = [host for host in hosts if host.gpu.values]
    if not measured:
        return Judgement(NOT_MEASURED, "CloudWatch has no value of its utilization.", gpus=_gpus(hosts))
    working = [host for host in measured if _did_work(host)]
    unclear = [host for host in measured if not _did_work(host) and host.coverage < SEEN_ENOUGH]
    missing = max(len(hosts), expected_hosts or 0) - len(measured)
    if working:
        return _of_working(hosts, working, unclear, missing, means)
    if unclear or missing:
        return Judgement(UNKNOWN, _gap_reason(measured, hosts, missing), gpus=_gpus(hosts))
    opened = [
        host for host in measured if host.memory_peak is None or host.memory_peak >= OPEN_MEMORY_PERCENT
    ]
    total = _gpus(hosts)
    if not opened:
        cores = means.cpu_cores
        cpu = f", while {cores:.1f} CPU cores were busy" if cores is not None else ""
        reason = f"No program opened the {_gpus_text(total)}: utilization and GPU memory stayed at 0{cpu}."
        return Judgement(CPU_ONLY, reason, _CPU_REMEDY, total, 0, total or 0, wasted_share=1.0)
    busy = sum(host.busy_s for host in measured)
    reason = f"The {_gpus_text(total)} did almost no work: {format_duration(busy)} of work in {format_duration(seconds)}."
    return Judgement(IDLE, reason, _IDLE_REMEDY, total, 0, total or 0, wasted_share=1.0)


def working_at_least(host: HostUsage) -> int:
    """How many GPUs of a host that worked did so at least."""
    needed = max(1, math.ceil(((host.peak or 0.0) - ROUNDING) / 100))
    return needed if host.gpus is None else min(host.gpus, needed)


def probably_working(host: HostUsage) -> int | None:
    """How many GPUs of a host probably worked; None if the sum does not show it."""
    at_least = working_at_least(host)
    if host.gpus is None or at_least >= host.gpus:
        return host.gpus
    is_saturated = (host.typical or 0.0) >= 100 * at_least - UNSATURATED
    return at_least if is_saturated and 2 * at_least <= host.gpus else None


def _of_working(
    hosts: Sequence[HostUsage],
    working: Sequence[HostUsage],
    unclear: Sequence[HostUsage],
    missing: int,
    means: _Means,
) -> Judgement:
    """The verdict if the GPUs of some hosts worked."""
    total = _gpus(hosts)
    at_least = sum(working_at_least(host) for host in working)
    busy = _utilization_text(means)
    if total is None:
        reason = f"GPUs worked{busy}; how many there are is unknown."
        return Judgement(UNKNOWN if missing or unclear else USED, reason, working=at_least)
    if at_least >= total and not missing:
        return Judgement(
            USED, f"{at_least} of {pluralize(total, 'GPU')} worked{busy}.", None, total, at_least
        )
    certainly_idle = [
        host for host in hosts if host.gpu.values and host not in working and host not in unclear
    ]
    is_complete = not unclear and not missing
    if certainly_idle or (is_complete and all(probably_working(host) is not None for host in working)):
        return _partly(hosts, working, certainly_idle, means, is_complete=is_complete)
    reason = f"Between {at_least} and {total} of {pluralize(total, 'GPU')} worked{busy}"
    if missing or unclear:
        reason += f"; values of {pluralize(missing + len(unclear), 'host')} are missing."
    else:
        reason += ": their sum, which is all that is published, does not show which."
    return Judgement(UNKNOWN, reason, None, total, at_least, total - at_least, is_certain=False)


def _partly(
    hosts: Sequence[HostUsage],
    working: Sequence[HostUsage],
    idle_hosts: Sequence[HostUsage],
    means: _Means,
    *,
    is_complete: bool,
) -> Judgement:
    """The verdict if some GPUs did no work, or probably none."""
    total = _gpus(hosts) or 0
    idle = sum(host.gpus or 0 for host in idle_hosts)
    suspected = sum(
        (host.gpus or 0) - found for host in working if (found := probably_working(host)) is not None
    )
    at_least = sum(working_at_least(host) for host in working)
    busy = _utilization_text(means)
    if idle and not suspected:
        names = host_list([host.host for host in idle_hosts])
        reason = f"{total - idle} of {pluralize(total, 'GPU')} worked{busy}; {names} did nothing."
    else:
        reason = (
            f"Probably only {total - idle - suspected} of {pluralize(total, 'GPU')} worked{busy}: the sum of a host never exceeded "
            f"{max(host.peak or 0.0 for host in working):.0f} %."
        )
    return Judgement(
        PARTLY_USED,
        reason,
        _PARTLY_REMEDY,
        total,
        at_least,
        idle + suspected,
        is_certain=is_complete and not suspected,
        wasted_share=(idle + suspected) / total if total else 0.0,
    )


def _did_work(host: HostUsage) -> bool:
    """Whether the GPUs of a host did more than a negligible amount of work."""
    if host.busy_s >= ENOUGH_BUSY_S:
        return True
    measured_s = len(host.gpu.values) * host.period
    return host.busy_s >= max(MIN_BUSY_S, MIN_BUSY_SHARE * measured_s)


def _means(hosts: Sequence[HostUsage]) -> _Means:
    """Mean and p90 in percent of all GPUs, and busy CPU cores of a host."""
    known = [host for host in hosts if host.mean is not None and host.gpus]
    gpus = sum(host.gpus or 0 for host in known)
    cores = [host.cpu_cores for host in hosts if host.cpu_cores is not None]
    return _Means(
        mean=sum(host.mean or 0.0 for host in known) / gpus if gpus else None,
        p90=sum(host.p90 or 0.0 for host in known) / gpus if gpus else None,
        cpu_cores=sum(cores) / len(cores) if cores else None,
    )


def _gpus(hosts: Sequence[HostUsage]) -> int | None:
    """GPUs of all hosts; None if those of one are unknown."""
    counts = [host.gpus for host in hosts]
    return None if None in counts or not counts else sum(count or 0 for count in counts)


def _gpus_text(total: int | None) -> str:
    if total is None:
        return "GPUs"
    return "GPU" if total == 1 else f"{total} GPUs"


def _utilization_text(means: _Means) -> str:
    mean, p90 = means.mean, means.p90
    return "" if mean is None or p90 is None else f", mean {mean:.0f} %, p90 {p90:.0f} %"


def _gap_reason(measured: Sequence[HostUsage], hosts: Sequence[HostUsage], missing: int) -> str:
    if missing:
        return f"The GPUs of {pluralize(len(measured), 'host')} did no work, and CloudWatch has no value of {pluralize(missing, 'host')}."
    values, expected = sum(len(host.gpu.values) for host in hosts), sum(host.expected for host in hosts)
    return f"The GPUs did no work in the {values} of about {expected} values that CloudWatch has: the others are missing."
