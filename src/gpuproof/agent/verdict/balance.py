"""How evenly the work was spread over GPUs and hosts, and how long hosts waited for each other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpuproof.agent.verdict.schema import Bottleneck, GpuVerdict, HostVerdict
from gpuproof.util.humanize import format_duration, gpu_list, pluralize

IMBALANCE, START_SKEW, END_SKEW = "imbalance", "start-skew", "end-skew"

_UNEVEN = 0.5
"""A GPU that worked for less than this share of the others' median has got less of the work."""
_MOST_NAMED = 4
_LONG_ENOUGH_S = 10.0
"""GPUs that worked for less, by their median, show nothing."""
_SKEW_SHARE, _SKEW_S = 0.05, 60.0
"""Waiting for this share of the run, or for these seconds, is reported ..."""
_SMALLEST_SKEW_S = 5.0
"""... unless it is shorter than this."""


def imbalance(gpus: Sequence[GpuVerdict]) -> Bottleneck | None:
    """GPUs that worked for less than half as long as the others; `None` if there are none, or if it is uncertain.

    A GPU that waits for another one in a collective operation of NCCL counts as busy: NVML's utilization is the share of
    time in which a kernel ran.
    """
    working = [gpu for gpu in gpus if gpu.worked]
    if len(working) < 2:
        return None
    ordered = sorted(working, key=lambda gpu: gpu.busy_s)
    slow = [gpu for gpu in ordered if gpu.busy_s < _UNEVEN * _median_of_others(gpu, working)]
    others = [gpu for gpu in working if gpu not in slow]
    if not slow or len(slow) >= len(others) + (len(working) == 2):
        return None
    median = _median(gpu.busy_s for gpu in others)
    if median < _LONG_ENOUGH_S:
        return None
    least = slow[0]
    most = f"at most {format_duration(slow[-1].busy_s)}" if len(slow) > 1 else format_duration(least.busy_s)
    return Bottleneck(
        IMBALANCE,
        f"{_names(slow)} worked for {most}, and the other {pluralize(len(others), 'GPU')} for "
        f"{format_duration(median)} (median): the work was not spread evenly. Check how the data is divided among the ranks.",
        {
            "gpu": least.index,
            "host": least.host,
            "busy_s": round(least.busy_s, 3),
            "median_busy_s": round(median, 3),
            "gpus": len(slow),
        },
    )


def skews(hosts: Sequence[HostVerdict], seconds: float) -> list[Bottleneck]:
    """How long hosts waited for the last one to start, and for the last one to end, if it matters.

    Each host's agent measures how long it waits for the others; without that, the hosts' clocks are compared.

    Args:
        seconds: how long the run took.
    """
    matters = max(_SMALLEST_SKEW_S, min(_SKEW_S, _SKEW_SHARE * seconds))
    waited = _wait(
        START_SKEW, "before the script started", [(host.start_wait_s, host.host) for host in hosts]
    )
    if waited is not None:
        # The scripts started at the same moment.
        starts = [
            waited,
            _start_skew("first used a GPU", [(host.first_use_s, host.host) for host in hosts], ""),
        ]
    else:
        starts = [
            _start_skew("started the script", [(host.started, host.host) for host in hosts]),
            _start_skew("first used a GPU", [(_first_use(host), host.host) for host in hosts]),
        ]
    waited = _wait(END_SKEW, "after its script had ended", [(host.end_wait_s, host.host) for host in hosts])
    ends = [waited or _end_skew([(host.ended, host.host) for host in hosts])]
    found = (_first_that_matters(some, matters) for some in (starts, ends))
    return [finding for finding in found if finding is not None]


def _first_that_matters(found: Iterable[Bottleneck | None], matters: float) -> Bottleneck | None:
    return next(
        (
            bottleneck
            for bottleneck in found
            if bottleneck is not None and float(bottleneck.numbers["seconds"] or 0) >= matters
        ),
        None,
    )


def _first_use(host: HostVerdict) -> float | None:
    return None if host.started is None or host.first_use_s is None else host.started + host.first_use_s


def _median(values: Iterable[float]) -> float:
    # The module `statistics` takes as long to import as the rest of the agent.
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def _median_of_others(gpu: GpuVerdict, gpus: Sequence[GpuVerdict]) -> float:
    return _median(other.busy_s for other in gpus if other is not gpu)


def _names(gpus: Sequence[GpuVerdict]) -> str:
    """`GPU 3`, `GPUs 2 and 3`, `GPU 0 of algo-2`; many GPUs and several hosts are counted."""
    hosts = {gpu.host for gpu in gpus}
    if len(hosts) > 1:
        return f"{pluralize(len(gpus), 'GPU')} of {pluralize(len(hosts), 'host')}"
    host = hosts.pop()
    if host and len(gpus) > _MOST_NAMED:
        return f"{len(gpus)} GPUs of {host}"
    return gpu_list(sorted(gpu.index for gpu in gpus)) + (f" of {host}" if host else "")


def _wait(kind: str, when: str, waits: Sequence[tuple[float | None, str]]) -> Bottleneck | None:
    known = [(seconds, host) for seconds, host in waits if seconds is not None]
    if len(known) < 2:
        return None
    (_, last), (seconds, first) = min(known), max(known)
    sentence = f"{first} waited {format_duration(seconds)} for {last} {when}."
    return Bottleneck(kind, sentence, _numbers(seconds, first, last))


def _start_skew(
    what: str, times: Sequence[tuple[float | None, str]], clocks: str = ", by the hosts' clocks"
) -> Bottleneck | None:
    if (found := _range(times)) is None:
        return None
    seconds, first, last = found
    return Bottleneck(
        START_SKEW,
        f"{last} {what} {format_duration(seconds)} after {first}{clocks}: hosts that work together wait for "
        "the last one.",
        _numbers(seconds, first, last),
    )


def _end_skew(times: Sequence[tuple[float | None, str]]) -> Bottleneck | None:
    if (found := _range(times)) is None:
        return None
    seconds, first, last = found
    return Bottleneck(
        END_SKEW,
        f"{first} ended {format_duration(seconds)} before {last}, by the hosts' clocks, and its GPUs did nothing meanwhile.",
        _numbers(seconds, first, last),
    )


def _range(times: Sequence[tuple[float | None, str]]) -> tuple[float, str, str] | None:
    """Seconds between the first and the last time, and their hosts; `None` for fewer than two times."""
    known = [(time, host) for time, host in times if time is not None]
    if len(known) < 2:
        return None
    (first_time, first), (last_time, last) = min(known), max(known)
    return last_time - first_time, first, last


def _numbers(seconds: float, first: str, last: str) -> dict[str, float | int | str | None]:
    return {"seconds": round(seconds, 3), "first_host": first, "last_host": last}
