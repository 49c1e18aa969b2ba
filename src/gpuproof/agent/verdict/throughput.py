"""Throughput of a host from the counts of its processes, and of a job from its hosts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from gpuproof.agent.verdict.schema import RankThroughput, Throughput


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
    )


def job_throughput(hosts: Sequence[Throughput]) -> Throughput | None:
    """The throughput of several hosts that work at the same time; the ranks are left with their hosts."""
    if not hosts:
        return None
    return Throughput(
        examples_per_s=sum(host.examples_per_s for host in hosts),
        examples=sum(host.examples for host in hosts),
        seconds=max(host.seconds for host in hosts),
    )


class _Count(NamedTuple):
    rank: int | None
    examples: int
    counted: int
    first: float
    last: float


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
            )
        )
    return [*ranks.values(), *(count for count in counts if count.rank is None)]


def _count(document: Mapping[str, Any]) -> _Count | None:
    """The counts of one process; `None` for those of a single step, and for anything that a script may have written."""
    rank = document.get("rank")
    numbers = [document.get(name) for name in ("examples", "first_examples", "first", "last")]
    if not all(isinstance(number, (int, float)) and math.isfinite(number) for number in numbers):
        return None
    examples, first_examples, first, last = (float(number) for number in numbers if number is not None)
    if last <= first or examples <= first_examples:
        return None
    return _Count(
        rank if isinstance(rank, int) else None, int(examples), int(examples - first_examples), first, last
    )
