"""Merges the verdicts of a job's hosts into the verdict on the job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Callable

from gpuproof.agent.verdict.balance import IMBALANCE, imbalance, skews
from gpuproof.agent.verdict.energy import job_energy
from gpuproof.agent.verdict.events import job_events
from gpuproof.agent.verdict.evidence import Steps
from gpuproof.agent.verdict.gpus import busy_text, gaps
from gpuproof.agent.verdict.mfu import job_mfu
from gpuproof.agent.verdict.schema import (
    CPU_ONLY,
    IDLE,
    NO_GPU_EXPECTED,
    OCCUPIED,
    PARTLY_USED,
    UNKNOWN,
    USED,
    Bottleneck,
    Expectation,
    GpuVerdict,
    HostVerdict,
    ProcessSummary,
    Verdict,
    outcome_of_working,
)
from gpuproof.agent.verdict.steps import job_steps
from gpuproof.agent.verdict.stragglers import STRAGGLER, HostFacts, find_straggler, straggler_bottleneck
from gpuproof.agent.verdict.throughput import job_throughput
from gpuproof.util.humanize import host_list, pluralize

_OUTCOMES = (USED, PARTLY_USED, OCCUPIED, IDLE, CPU_ONLY, NO_GPU_EXPECTED, UNKNOWN)
_NO_VERDICT = "no verdict"


@dataclass(frozen=True)
class HostReport:
    """What one host's agent left behind.

    Args:
        verdict: its `verdict.json`; `None` if there is none.
        state: its `run.json`; empty if there is none.
    """

    verdict: Mapping[str, Any] | None = None
    state: Mapping[str, Any] | None = None


def merge_hosts(hosts: Iterable[str], reports: Mapping[str, HostReport]) -> dict[str, Any] | None:
    """The `verdict.json` of a job with several hosts; that of its only host as it is; `None` if no host has one.

    A host without a verdict counts as a host whose GPUs are unknown.

    Args:
        hosts: all hosts of the job, with or without a report.
    """
    names = sorted({*hosts, *reports}, key=lambda host: (len(host), host))
    documents = {host: report.verdict for host, report in reports.items() if report.verdict is not None}
    if len(names) <= 1 or not documents:
        return dict(next(iter(documents.values()))) if documents else None
    read = {host: _read(document) for host, document in documents.items()}
    return _merge(names, read, reports).to_json()


def _read(document: Mapping[str, Any]) -> Verdict:
    """The verdict of one host; one of a newer agent only as far as it can be read."""
    try:
        verdict = Verdict.from_json(document)
    except ValueError as problem:
        return Verdict(UNKNOWN, str(problem), gpu_requirement_met=document.get("gpu_requirement_met"))
    if verdict.outcome in _OUTCOMES:
        return verdict
    return replace(verdict, outcome=UNKNOWN, reason=f"{verdict.outcome}: {verdict.reason}")


def _merge(names: Sequence[str], read: Mapping[str, Verdict], reports: Mapping[str, HostReport]) -> Verdict:
    missing = _missing_host(list(read.values()))
    hosts = tuple(_host(name, read.get(name, missing), name in read, reports.get(name)) for name in names)
    gpus = tuple(
        replace(gpu, host=name) for name in names for gpu in read.get(name, missing).gpus if gpu.host is None
    )
    outcome = _outcome(hosts, read)
    first = read[next(name for name in names if name in read)]
    fullest = max(read.values(), key=_shm_share)
    remedies = [read[name].remedy for name in names if name in read and read[name].remedy]
    limits = [
        replace(bottleneck, host=name)
        for name in names
        if name in read
        for bottleneck in read[name].bottlenecks
        if bottleneck.kind not in (IMBALANCE, STRAGGLER)
    ]
    steps = _steps(hosts, read)
    seconds = max(verdict.seconds for verdict in read.values())
    uneven = imbalance(gpus)
    return Verdict(
        outcome=outcome,
        reason=_reason(outcome, hosts, gpus, read, steps),
        remedy=remedies[0] if remedies else None,
        cause=next((verdict.cause for verdict in read.values() if verdict.cause), None),
        expectation=_expectation(first.expectation, hosts),
        gpus_expected=sum(host.gpus_expected for host in hosts),
        gpus_working=sum(host.gpus_working for host in hosts),
        gpus_present=sum(host.gpus_present for host in hosts),
        gpu_requirement_met=_requirement_met(hosts),
        gpus=gpus,
        bottlenecks=(
            *_limits(limits, steps, hosts, seconds),
            *([uneven] if uneven else []),
            *skews(hosts, seconds),
        ),
        processes=_processes([host.processes for host in hosts if host.processes is not None]),
        cpu_count=_total([host.cpu_count for host in hosts]),
        shm_peak=fullest.shm_peak,
        shm_total=fullest.shm_total,
        driver_version=_versions([verdict.driver_version for verdict in read.values()]),
        cuda_compat=_versions([verdict.cuda_compat for verdict in read.values()]),
        seconds=seconds,
        samples=sum(verdict.samples for verdict in read.values()),
        notes=tuple(_notes(names, read)),
        throughput=job_throughput([host.throughput for host in hosts if host.throughput is not None]),
        mfu=job_mfu([read[name].mfu for name in names if name in read and read[name].gpus_working]),
        energy=job_energy(host.energy for host in hosts),
        steps=steps,
        hosts=hosts,
        events=job_events({name: read[name].events for name in names if name in read}),
    )


def _versions(found: Sequence[str | None]) -> str | None:
    return ", ".join(sorted({version for version in found if version})) or None


def _missing_host(read: Sequence[Verdict]) -> Verdict:
    """What is assumed of a host without a verdict: it has to do what the other hosts have to do."""
    expected = {verdict.gpus_expected for verdict in read}
    required = any(verdict.expectation.required for verdict in read)
    count = expected.pop() if len(expected) == 1 else 0
    is_met = True if not required and count == 0 else None
    return Verdict(UNKNOWN, _NO_VERDICT, gpus_expected=count, gpu_requirement_met=is_met)


def _host(name: str, verdict: Verdict, has_verdict: bool, report: HostReport | None) -> HostVerdict:
    state = (report.state if report else None) or {}
    uses = [gpu.first_use_s for gpu in verdict.gpus if gpu.worked and gpu.first_use_s is not None]
    return HostVerdict(
        host=name,
        outcome=verdict.outcome if has_verdict else None,
        reason=verdict.reason,
        gpus_expected=verdict.gpus_expected,
        gpus_working=verdict.gpus_working,
        gpus_present=verdict.gpus_present,
        gpu_requirement_met=verdict.gpu_requirement_met,
        seconds=verdict.seconds,
        started=_time(state.get("script_started")),
        ended=_time(state.get("script_ended")),
        first_use_s=min(uses, default=None),
        start_wait_s=_time(state.get("start_wait_s")),
        end_wait_s=_time(state.get("end_wait_s")),
        processes=verdict.processes,
        cpu_count=verdict.cpu_count,
        throughput=verdict.throughput,
        energy=verdict.energy,
        steps=_host_steps(name, verdict.steps),
    )


def _host_steps(name: str, steps: Steps | None) -> Steps | None:
    """The steps of a host with its name, without the windows, which are of no use after the hosts have been compared."""
    if steps is None:
        return None
    ranks = tuple(replace(rank, host=name, windows=()) for rank in steps.ranks)
    return replace(steps, ranks=ranks, straggler=None)


def _steps(hosts: Sequence[HostVerdict], read: Mapping[str, Verdict]) -> Steps | None:
    steps = job_steps([host.steps for host in hosts if host.steps is not None])
    if steps is None:
        return None
    ranks = [
        replace(rank, host=name)
        for name, verdict in read.items()
        if verdict.steps is not None
        for rank in verdict.steps.ranks
    ]
    facts: dict[str | None, HostFacts] = {name: _facts(verdict) for name, verdict in read.items()}
    return replace(steps, straggler=find_straggler(ranks, facts))


def _facts(verdict: Verdict) -> HostFacts:
    cores = verdict.processes.mean_cpu_percent / 100 if verdict.processes is not None else None
    return HostFacts(verdict.gpus, cores, verdict.cpu_count)


def _limits(
    limits: Sequence[Bottleneck], steps: Steps | None, hosts: Sequence[HostVerdict], seconds: float
) -> list[Bottleneck]:
    """The bottlenecks of the hosts; if the hosts waited for a rank, that instead of what follows from it."""
    straggler = steps.straggler if steps is not None else None
    if straggler is None:
        return list(limits)
    ranks = sum(len(host.steps.ranks) for host in hosts if host.steps is not None)
    rest = [
        limit
        for limit in limits
        if limit.kind != "communication"
        and not (limit.host == straggler.host and limit.kind == straggler.cause)
    ]
    return [straggler_bottleneck(straggler, ranks, seconds), *rest]


def _time(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) else None


def _outcome(hosts: Sequence[HostVerdict], read: Mapping[str, Verdict]) -> str:
    outcomes = {host.outcome for host in hosts}
    if any(host.gpus_working for host in hosts):
        each = {_outcome_of_host(host, read.get(host.host)) for host in hosts}
        return next(outcome for outcome in (PARTLY_USED, UNKNOWN, USED) if outcome in each)
    if outcomes <= {NO_GPU_EXPECTED, None} and all(host.gpus_expected == 0 for host in hosts):
        return NO_GPU_EXPECTED
    if outcomes & {UNKNOWN, None}:
        return UNKNOWN
    return next((outcome for outcome in (OCCUPIED, IDLE) if outcome in outcomes), CPU_ONLY)


def _outcome_of_host(host: HostVerdict, verdict: Verdict | None) -> str:
    """`used`, `partly used` or `unknown`, of a host of a job in which some GPU worked."""
    if verdict is None or (verdict.outcome == UNKNOWN and not verdict.gpus):
        unclear = host.gpus_expected
    else:
        unclear = sum(gpu.worked is None for gpu in verdict.gpus)
    return outcome_of_working(host.gpus_working, unclear, host.gpus_expected)


def _requirement_met(hosts: Sequence[HostVerdict]) -> bool | None:
    met = [host.gpu_requirement_met for host in hosts]
    if False in met:
        return False
    return None if None in met else True


def _expectation(first: Expectation, hosts: Sequence[HostVerdict]) -> Expectation:
    if first.gpus is None:
        return first
    return replace(first, gpus=sum(host.gpus_expected for host in hosts))


def _reason(
    outcome: str,
    hosts: Sequence[HostVerdict],
    gpus: Sequence[GpuVerdict],
    read: Mapping[str, Verdict],
    steps: Steps | None,
) -> str:
    if not any(host.gpus_working for host in hosts):
        reasons = _by_host(hosts, lambda host: host.reason.rstrip("."))
        if len(reasons) == 1 and outcome == NO_GPU_EXPECTED:
            return f"{next(iter(reasons))}."
        return "; ".join(f"{host_list(names)}: {reason}" for reason, names in reasons.items()) + "."
    working = [gpu for gpu in gpus if gpu.worked]
    busy = busy_text(working, steps)
    expected = sum(host.gpus_expected for host in hosts)
    if expected == 0:
        return (
            f"No GPU was expected, and {pluralize(len(working), 'GPU')} on {len(hosts)} hosts worked{busy}."
        )
    on_hosts = f" on {len(hosts)} hosts" if len(working) >= expected else ""
    sentence = f"{len(working)} of {pluralize(expected, 'GPU')}{on_hosts} worked{busy}"
    missing = _by_host(hosts, lambda host: _gap(host, read.get(host.host)))
    missing.pop(None, None)
    return "; ".join([sentence, *(f"{host_list(names)}: {gap}" for gap, names in missing.items())]) + "."


def _gap(host: HostVerdict, verdict: Verdict | None) -> str | None:
    """What keeps a host from having used all of its GPUs; `None` if nothing does."""
    if verdict is None:
        return _NO_VERDICT
    if host.gpus_working >= host.gpus_expected:
        return None
    parts = gaps(verdict.gpus)
    if verdict.gpus and host.gpus_present < host.gpus_expected:
        parts.append(f"{host.gpus_present} of {pluralize(host.gpus_expected, 'GPU')} present")
    return ", ".join(parts) or host.reason.rstrip(".")


def _by_host(hosts: Sequence[HostVerdict], text: Callable[[HostVerdict], Any]) -> dict[Any, list[str]]:
    """Hosts by what is to be said about them, so that it is said once."""
    found: dict[Any, list[str]] = {}
    for host in hosts:
        found.setdefault(text(host), []).append(host.host)
    return found


def _notes(names: Sequence[str], read: Mapping[str, Verdict]) -> list[str]:
    notes: dict[str, list[str]] = {}
    for name in names:
        for note in read[name].notes if name in read else ():
            notes.setdefault(note, []).append(name)
    return [
        note if len(those) == len(names) else f"{host_list(those)}: {note}" for note, those in notes.items()
    ]


def _processes(found: Sequence[ProcessSummary]) -> ProcessSummary | None:
    if not found:
        return None
    return ProcessSummary(
        peak_rss=max(process_summary.peak_rss for process_summary in found),
        mean_cpu_percent=sum(process_summary.mean_cpu_percent for process_summary in found),
        cpu_seconds=sum(process_summary.cpu_seconds for process_summary in found),
        read_bytes=_total([process_summary.read_bytes for process_summary in found]),
        written_bytes=_total([process_summary.written_bytes for process_summary in found]),
        peak_processes=sum(process_summary.peak_processes for process_summary in found),
    )


def _total(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _shm_share(verdict: Verdict) -> float:
    return (verdict.shm_peak or 0) / verdict.shm_total if verdict.shm_total else 0.0
