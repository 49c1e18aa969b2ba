"""Which values of CloudWatch are read, in batches of 500 metrics, and what they say about each host."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from gpuproof.account.audit.usage import DELAY_S, HostUsage, Samples, host_usage
from gpuproof.account.audit.workload import Metric, Source, Workload
from gpuproof.account.cleanup.inventory.region import Region
from gpuproof.backends.aws.services.audit import QUERIES, MetricQuery, MetricValues

_DAY = 86_400.0
KEPT = ((60, 15 * _DAY), (300, 63 * _DAY), (3600, 455 * _DAY))
"""For how many seconds CloudWatch keeps values of each period, in seconds.

Source: https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_GetMetricData.html
"""

_LONGEST = ((60, 1 * _DAY), (300, 5 * _DAY), (3600, 455 * _DAY))
"""For how long each period is read: at most 1,440 values of a metric up to 60 days."""

_ESTIMATE = 90_000
"""Values that a request may have: half of the quota for a second and region, and no more than a page has.

CloudWatch estimates them from the requested time and period, however few there are, so that a request beyond the quota is always throttled.

Source: https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/cloudwatch_limits.html
"""

_MARGIN_S = 3600.0
"""Values that are about to expire are not asked for."""


class Uptime(NamedTuple):
    """When something was billed, by a metric that has values meanwhile.

    Attributes:
        seconds: for which there are values.
        cpu_cores: mean number of busy CPU cores; None without a value.
    """

    seconds: float
    cpu_cores: float | None


class Reading(NamedTuple):
    """What CloudWatch has of the things that were billed.

    Attributes:
        hosts: for each of them, the usage of its hosts; None if it could not be read.
        uptimes: for each of them, its uptime; None without such a metric.
        metrics: how many metrics were requested.
    """

    hosts: list[tuple[HostUsage, ...] | None]
    uptimes: list[Uptime | None]
    metrics: int


class _Wanted(NamedTuple):
    """A query for one source of a workload, or for its uptime."""

    workload: int
    source: int
    part: str
    query: MetricQuery
    start: float
    end: float


def period_of(start: float, end: float, now: float) -> int | None:
    """The finest period for which CloudWatch still has values of a time, and that has a bounded number of them, in seconds.

    None if all values have expired.
    """
    age, length = now - start + _MARGIN_S, end - start
    for (period, kept), (_, longest) in zip(KEPT, _LONGEST, strict=True):
        if age <= kept and length <= longest:
            return period
    return None


def window_of(workload: Workload, now: float) -> tuple[float, float] | None:
    """The time in which its program could use the GPUs, until `now` at the latest; None if there is none."""
    if workload.start is None:
        return None
    end = now if workload.end is None else workload.end
    return (workload.start, end) if end > workload.start else None


def read_utilization(region: Region, workloads: Sequence[Workload]) -> Reading:
    """The utilization of everything in a region; what cannot be read is noted in `region.unread`."""
    wanted = [
        query for index, workload in enumerate(workloads) for query in _queries(index, workload, region.now)
    ]
    batches = list(_batches(wanted))
    answers = region.read_each("utilization", "cloudwatch", lambda batch: _values(region, batch), batches)
    values: dict[int, dict[tuple[int, str], Samples]] = defaultdict(dict)
    failed: set[int] = set()
    for batch, answer in zip(batches, answers, strict=True):
        if answer is None:
            failed |= {query.workload for query in batch}
            continue
        for query, found in zip(batch, answer, strict=True):
            samples = Samples(found.times, found.values).within(query.start - query.query.period, query.end)
            values[query.workload][query.source, query.part] = samples
    hosts: list[tuple[HostUsage, ...] | None] = []
    uptimes: list[Uptime | None] = []
    for index, workload in enumerate(workloads):
        uptimes.append(_uptime(workload, values[index], region.now))
        hosts.append(None if index in failed else tuple(_usages(workload, values[index], region.now)))
    return Reading(hosts, uptimes, len(wanted))


def _queries(index: int, workload: Workload, now: float) -> Iterator[_Wanted]:
    window = window_of(workload, now)
    period = None if window is None else period_of(*window, now)
    if window is None or period is None:
        return
    for number, source in enumerate(workload.sources):
        for part, metric, statistic in _parts(source, period):
            query = MetricQuery(metric.namespace, metric.name, metric.dimensions, statistic, period)
            yield _Wanted(index, number, part, query, *window)
    if (metric := workload.uptime) is not None:
        period = max(300, period)  # EC2 publishes every 5 minutes, unless detailed monitoring is on
        query = MetricQuery(metric.namespace, metric.name, metric.dimensions, "Average", period)
        yield _Wanted(index, 0, "uptime", query, *window)


def _parts(source: Source, period: int) -> Iterator[tuple[str, Metric, str]]:
    """The metrics of a source, each with what it is for and its statistic."""
    yield "gpu", source.gpu, "Average"
    # One host publishes one value a minute: its average is its maximum.
    if period > KEPT[0][0] or source.is_average:
        yield "largest", source.gpu, "Maximum"
    if source.memory is not None:
        yield "memory", source.memory, "Maximum"
    if source.cpu is not None:
        yield "cpu", source.cpu, "Average"


def _batches(wanted: Sequence[_Wanted]) -> Iterator[list[_Wanted]]:
    """Batches of one period, of times that are near each other: a request has one time for all its metrics."""
    by_period: dict[int, list[_Wanted]] = defaultdict(list)
    for query in wanted:
        by_period[query.query.period].append(query)
    for period, queries in by_period.items():
        batch: list[_Wanted] = []
        end = 0.0
        for query in sorted(queries, key=lambda query: query.start):
            latest = max(end, query.end)
            if batch and not _fits(len(batch) + 1, latest - batch[0].start, period):
                yield batch
                batch, latest = [], query.end
            batch.append(query)
            end = latest
        yield batch


def _fits(metrics: int, seconds: float, period: int) -> bool:
    """Whether a request may have so many metrics over a time."""
    return metrics <= QUERIES and metrics * (seconds / period + 2) <= _ESTIMATE


def _values(region: Region, batch: Sequence[_Wanted]) -> list[MetricValues]:
    period = batch[0].query.period
    start = min(query.start for query in batch) // period * period
    end = max(query.end for query in batch) // period * period + period
    return region.aws.metric_values([query.query for query in batch], start, end)


def _usages(workload: Workload, values: Mapping[tuple[int, str], Samples], now: float) -> Iterator[HostUsage]:
    window = window_of(workload, now)
    period = None if window is None else period_of(*window, now)
    if window is None or period is None:
        return
    seconds = workload.active_seconds
    for number, source in enumerate(workload.sources):
        found = {
            name: _scaled(values.get((number, name), Samples()), metric)
            for name, metric in (("gpu", source.gpu), ("memory", source.memory), ("cpu", source.cpu))
        }
        gpu, cpu = found["gpu"], found["cpu"]
        if not cpu.values and workload.uptime is not None:
            cpu = _scaled(values.get((0, "uptime"), Samples()), workload.uptime)
        known = len(gpu.values) * period if seconds is None else seconds
        if workload.is_running:
            known = max(0.0, known - DELAY_S)
        largest = values.get((number, "largest"))
        yield host_usage(source.host, source.gpus, period, known, gpu, largest, found["memory"], cpu)


def _uptime(workload: Workload, values: Mapping[tuple[int, str], Samples], now: float) -> Uptime | None:
    if workload.uptime is None or (0, "uptime") not in values:
        return None
    window = window_of(workload, now)
    period = None if window is None else period_of(*window, now)
    if period is None:
        return None
    cpu = _scaled(values[0, "uptime"], workload.uptime).values
    return Uptime(float(len(cpu) * max(300, period)), sum(cpu) / len(cpu) / 100 if cpu else None)


def _scaled(samples: Samples, metric: Metric | None) -> Samples:
    scale = 1.0 if metric is None else metric.scale
    return Samples(samples.times, tuple(value * scale for value in samples.values))
