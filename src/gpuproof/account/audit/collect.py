"""Reads what was billed in all regions at the same time, with its utilization, and judges it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from gpuproof.account.audit.endpoints import DELETED, collect_endpoints
from gpuproof.account.audit.instances import collect_instances, collect_notebooks
from gpuproof.account.audit.jobs import collect_processing, collect_training, collect_transform
from gpuproof.account.audit.judge import NOT_MEASURED, Judgement, judge
from gpuproof.account.audit.row import Audit, AuditRow
from gpuproof.account.audit.usage import DELAY_S, HostUsage
from gpuproof.account.audit.utilization import KEPT, period_of, read_utilization, window_of
from gpuproof.account.audit.workload import Workload
from gpuproof.account.cleanup.inventory.region import Region
from gpuproof.account.cleanup.inventory.scan import Scan
from gpuproof.account.cleanup.resource import RUN_TAG, Kind
from gpuproof.util.humanize import format_duration

Collector = Callable[[Region, float], list[Workload]]
COLLECTORS: tuple[Collector, ...] = (
    collect_training,
    collect_processing,
    collect_transform,
    collect_endpoints,
    collect_notebooks,
    collect_instances,
)
"""All kinds of things with GPUs that are billed."""

_MINUTE = 60.0
_DAY = 86_400.0


def audit_account(
    scan: Scan, regions: Sequence[str], since: float, now: float, collectors: Sequence[Collector] = COLLECTORS
) -> Audit:
    """What was billed in some regions since a time, and what its GPUs did.

    Args:
        since, now: seconds since the epoch.

    Raises:
        NoCredentials: there are no usable credentials.
    """
    read = scan.regions(regions, now)
    requests = [partial(collect, region, since) for collect in collectors for region in read]
    results = scan.call_each(requests)
    found: dict[str, list[Workload]] = {region.name: [] for region in read}
    for request, workloads in zip(requests, results, strict=True):
        found[request.args[0].name] += workloads
    judged = scan.call_each([partial(audit_region, region, found[region.name]) for region in read])
    rows = [row for rows, _ in judged for row in rows]
    unread = tuple(failure for region in read for failure in region.unread)
    metrics = sum(count for _, count in judged)
    return Audit(tuple(sorted(rows, key=_order)), tuple(regions), since, now, unread, metrics)


def audit_region(region: Region, workloads: Sequence[Workload]) -> tuple[list[AuditRow], int]:
    """The rows of a region, and how many metrics were requested for them."""
    reading = read_utilization(region, workloads)
    tags = _tags(region, workloads)
    rows: list[AuditRow] = []
    for workload, hosts, uptime in zip(workloads, reading.hosts, reading.uptimes, strict=True):
        known = workload
        if known.tags is None and tags is not None:
            known = replace(known, tags=tags.get(known.arn, {}))
        if not known.is_running and uptime is not None:
            known = replace(known, billed_seconds=uptime.seconds, active_seconds=uptime.seconds)
        if not _is_gone(known, hosts):
            rows.append(row_of(known, hosts, region.now, None if uptime is None else uptime.cpu_cores))
    return rows, reading.metrics


def row_of(
    workload: Workload, hosts: tuple[HostUsage, ...] | None, now: float, cpu_cores: float | None = None
) -> AuditRow:
    """The row of one thing that was billed.

    Args:
        hosts: the usage of its hosts; None if CloudWatch could not be read.
        now: seconds since the epoch.
        cpu_cores: mean number of busy CPU cores, of an instance whose hosts do not have it.
    """
    hosts = None if hosts is None else _without_cpu_hosts(workload, _with_known_time(workload, hosts))
    if workload.unmeasured:
        judgement = Judgement(NOT_MEASURED, workload.unmeasured, gpus=workload.gpus, cpu_cores=cpu_cores)
    elif hosts is None:
        judgement = Judgement(
            NOT_MEASURED, "CloudWatch could not be read in this region.", gpus=workload.gpus
        )
    elif not any(host.gpu.values for host in hosts):
        judgement = Judgement(NOT_MEASURED, _why_no_values(workload, now), gpus=workload.gpus)
    else:
        expected = workload.gpus if workload.kind is Kind.INSTANCE else None
        seconds = workload.active_seconds
        measured = max(len(host.gpu.values) * host.period for host in hosts)
        judgement = judge(hosts, measured if seconds is None else seconds, expected_hosts=expected)
    run = (workload.tags or {}).get(RUN_TAG)
    own = (f"a run of GPUproof: `gpuproof show {run}` has its verdict",) if run else ()
    notes = (*workload.notes, *own, *_resolution_notes(workload, hosts or (), now))
    return AuditRow(replace(workload, notes=notes), hosts or (), judgement)


def _with_known_time(workload: Workload, hosts: tuple[HostUsage, ...]) -> tuple[HostUsage, ...]:
    """The usage of hosts whose time is known by their uptime only: so many values are expected."""
    if workload.is_running or workload.uptime is None or workload.active_seconds is None:
        return hosts
    seconds = workload.active_seconds
    return tuple(replace(host, expected=max(1, int(seconds / host.period) - 1)) for host in hosts)


def _without_cpu_hosts(workload: Workload, hosts: tuple[HostUsage, ...]) -> tuple[HostUsage, ...]:
    """The hosts without as many of those that have no values as there are instances without a GPU: their names are not known."""
    silent = [host for host in hosts if not host.gpu.values][: workload.hosts_without_gpu]
    return tuple(host for host in hosts if host not in silent)


def _tags(region: Region, workloads: Sequence[Workload]) -> Mapping[str, Mapping[str, str]] | None:
    """The tags of those that have an ARN, and whose description lacks them; None if they cannot be read."""
    arns = [workload.arn for workload in workloads if workload.tags is None and workload.arn]
    if not arns:
        return {}
    return region.read("tags", "resourcegroupstaggingapi", lambda: region.aws.tags_of_resources(arns))


def _is_gone(workload: Workload, hosts: Iterable[HostUsage] | None) -> bool:
    """Whether nothing was billed for it in the time: a stopped instance, or an endpoint that was deleted before."""
    if workload.kind is Kind.INSTANCE and not workload.is_running:
        return not workload.billed_seconds
    return workload.status == DELETED and not any(host.gpu.values for host in hosts or ())


def _why_no_values(workload: Workload, now: float) -> str:
    """Why CloudWatch has no utilization of something that publishes it."""
    window = window_of(workload, now)
    if window is None:
        return "Its program has not run."
    if period_of(*window, now) is None:
        days = KEPT[-1][1] / _DAY
        return f"CloudWatch keeps values for {days:.0f} days (15 months), and it began {format_duration(now - window[0])} ago."
    if workload.is_running and now - window[0] < DELAY_S:
        return f"It began {format_duration(now - window[0])} ago, and values arrive some minutes later."
    seconds = window[1] - window[0]
    if seconds < 2 * _MINUTE:
        return f"It ran for {format_duration(seconds)}, and CloudWatch has one value a minute."
    return "CloudWatch has no value of its utilization."


def _resolution_notes(workload: Workload, hosts: Sequence[HostUsage], now: float) -> tuple[str, ...]:
    """Which values were read, if they are not those by the minute because these have expired."""
    window = window_of(workload, now)
    if window is None or not hosts or now - window[0] <= KEPT[0][1]:
        return ()
    minutes = hosts[0].period / _MINUTE
    return (f"values for {minutes:.0f} minutes each: those by the minute are kept for 15 days",)


def _order(row: AuditRow) -> tuple[float, float, str]:
    """The largest waste first, then the highest cost."""
    return -(row.wasted_usd or 0.0), -(row.workload.usd or 0.0), row.workload.key
