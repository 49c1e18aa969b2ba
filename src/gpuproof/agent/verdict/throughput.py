"""Throughput of a host from the counts of its processes, and of a job from its hosts."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from gpuproof.agent.verdict.schema import RankThroughput, Throughput

_MOST_WINDOWS = 64


def host_throughput(documents: Iterable[Mapping[str, Any]]) -> Throughput | None:
    """The throughput of one host; `None` if no process has counted two steps.

    Each process counts n examples between the end of its first step, at a, and the end of its last, at b. Its own
    throughput is n / (b - a), and that of the host is sum(n) / (max(b) - min(a)): for processes that work at the same time
    this is the sum of theirs, and for one that was restarted the time in between counts.

    Args:
        documents: what `gpuproof.runtime.log_throughput` wrote; invalid ones are ignored.
    """
    counts = _by_rank([count for document in documents if (count := _count(document)) is not None])
    if not counts:
        return None
    seconds = max(count.last for count in counts) - min(count.first for count in counts)
    ranks = [
        RankThroughput(
            count.rank, count.examples, count.last - count.first, count.counted / (count.last - count.first)
        )
        for count in sorted(counts, key=lambda count: (count.rank is None, count.rank or 0, count.first))
    ]
    return Throughput(
        examples_per_s=sum(count.counted for count in counts) / seconds,
        examples=sum(count.examples for count in counts),
        seconds=seconds,
        ranks=tuple(ranks),
        windows=_windows(counts),
    )


def job_throughput(hosts: Sequence[Throughput]) -> Throughput | None:
    """The throughput of several hosts that work at the same time; the ranks are left with their hosts."""
    if not hosts:
        return None
    return Throughput(
        examples_per_s=sum(host.examples_per_s for host in hosts),
        examples=sum(host.examples for host in hosts),
        seconds=max(host.seconds for host in hosts),
        windows=_added([host.windows for host in hosts]),
    )


class _Count(NamedTuple):
    rank: int | None
    examples: int
    counted: int
    first: float
    last: float
    points: tuple[tuple[float, float], ...] = ()
    """Times, and the examples that were counted until then, in order."""


def _by_rank(counts: Sequence[_Count]) -> list[_Count]:
    """The counts with one entry for each rank, which several processes have if the launcher restarts them."""
    ranks: dict[int, _Count] = {}
    for count in counts:
        if count.rank is None:
            continue
        before = ranks.get(count.rank)
        ranks[count.rank] = (
            count
            if before is None
            else _Count(
                count.rank,
                before.examples + count.examples,
                before.counted + count.counted,
                min(before.first, count.first),
                max(before.last, count.last),
                _continued(before, count),
            )
        )
    return [*ranks.values(), *(count for count in counts if count.rank is None)]


def _continued(before: _Count, count: _Count) -> tuple[tuple[float, float], ...]:
    """The points of a process and of the one that its launcher started in its place, between which nothing was counted."""
    if count.first < before.last:
        return ()
    return (*before.points, *((time, before.counted + counted) for time, counted in count.points))


def _windows(counts: Sequence[_Count]) -> tuple[float, ...]:
    """Examples per second of all processes in windows of the time in which all of them counted.

    A count between two points is interpolated, so a window must not be shorter than those of any process.
    """
    if not all(count.points for count in counts):
        return ()
    start, end = max(count.first for count in counts), min(count.last for count in counts)
    number = min(_MOST_WINDOWS, *(len(count.points) - 1 for count in counts))
    if number < 2 or end <= start:
        return ()
    edges = [start + (end - start) * index / number for index in range(number + 1)]
    totals = [sum(_interpolated(count.points, edge) for count in counts) for edge in edges]
    length = (end - start) / number
    return tuple((after - before) / length for before, after in zip(totals, totals[1:]))


def _interpolated(points: Sequence[tuple[float, float]], time: float) -> float:
    after = bisect_left(points, (time, -math.inf))
    if after == 0:
        return points[0][1]
    if after == len(points):
        return points[-1][1]
    (t0, n0), (t1, n1) = points[after - 1], points[after]
    return n0 + (n1 - n0) * (time - t0) / (t1 - t0)


def _added(hosts: Sequence[Sequence[float]]) -> tuple[float, ...]:
    """The windows of hosts that work at the same time, of which one may have a few more than another."""
    fewest, most = min(map(len, hosts)), max(map(len, hosts))
    if fewest < 2 or most > 1.1 * fewest:
        return ()
    return tuple(map(sum, zip(*hosts)))


def _count(document: Mapping[str, Any]) -> _Count | None:
    """The counts of one process; `None` for those of a single step, and for anything that a script may have written."""
    rank = document.get("rank")
    numbers = [document.get(name) for name in ("examples", "first_examples", "first", "last")]
    if not all(isinstance(number, (int, float)) and math.isfinite(number) for number in numbers):
        return None
    examples, first_examples, first, last = (float(number) for number in numbers if number is not None)
    if last <= first or examples <= first_examples:
        return None
    counted = int(examples - first_examples)
    points = _points(document.get("windows"), first_examples, (first, last), counted)
    return _Count(rank if isinstance(rank, int) else None, int(examples), counted, first, last, points)


def _points(
    windows: Any, first_examples: float, times: tuple[float, float], counted: int
) -> tuple[tuple[float, float], ...]:
    """The points of a process; none of a document without windows, or with others than `log_throughput` writes."""
    try:
        inner = [(float(time), float(examples) - first_examples) for time, examples in windows]
    except (TypeError, ValueError):
        return ()
    if not inner:
        return ()
    if inner[-1][0] < times[1]:
        inner.append((times[1], counted))
    points = [(times[0], 0.0), *inner]
    is_ordered = all(
        before[0] < after[0] and before[1] <= after[1] for before, after in zip(points, points[1:])
    )
    return tuple(points) if is_ordered and points[-1] == (times[1], counted) else ()
