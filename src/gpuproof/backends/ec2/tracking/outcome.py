"""Decides from the instances and the reports of their hosts whether a run goes on, and how it has ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gpuproof.agent.state import COMPLETED, FAILED, IN_PROGRESS, STOPPED, STOPPING
from gpuproof.backends.aws.services.ec2 import tag_dict
from gpuproof.backends.ec2.launch_record import LaunchRecord
from gpuproof.backends.ec2.tracking.host_reports import HostReport
from gpuproof.backends.ec2.tracking.state_reason import SHUT_DOWN, state_reason, transition_time
from gpuproof.backends.hosts import host_names
from gpuproof.backends.record import NEVER_LAUNCHED
from gpuproof.util.humanize import format_duration

STOP_TAG = "gpuproof:stop"
"""Tag of an instance that asks its host to stop the job; its value is the time of the request."""

_NO_NETWORK = (
    "an instance that shuts down before its first report usually does not reach S3: its subnet needs public addresses, a NAT gateway or "
    "an endpoint of S3, and its security group must allow outgoing connections"
)

NO_SIGN_OF_LIFE = "NoSignOfLife"
"""The failure code of a run whose instances a client has terminated because they had reported nothing."""

LAUNCH_SECONDS = 300.0
"""How long a launch may take from its record to the ids of its instances.

AWS throttles for up to two minutes, and a lost response takes a minute.
"""

_VISIBLE_SECONDS = 300.0
"""How long a new instance may be missing in descriptions: EC2's API is eventually consistent."""

_OVERDUE_SECONDS = 3600.0
"""How long after its time limit a run must have ended, if its instances may not be described."""

_ENDED_STATES = ("terminated",)
_ENDING_STATES = ("shutting-down", "stopping")
_WORST_FIRST = (FAILED, STOPPED, COMPLETED)
_START = "Starting"


@dataclass(frozen=True)
class Outcome:
    """What is known about the state of a run.

    Args:
        status: as `RunRecord.status`.
        secondary_status: as `RunRecord.secondary_status`.
        reason: why it did not complete; None if it did, or goes on.
        code: EC2's code for the end of an instance without a report; empty for any other run.
        ended: when it ended, in seconds since the epoch; None if that is unknown.
        interrupted: whether EC2 has reclaimed a spot instance.
        message: what it is doing, for the user.
    """

    status: str
    secondary_status: str
    reason: str | None = None
    code: str = ""
    ended: float | None = None
    exit_code: int | None = None
    interrupted: bool = False
    message: str | None = None
    notes: tuple[str, ...] = ()


def outcome_of(
    launch: LaunchRecord,
    instances: Mapping[str, Mapping[str, Any]] | None,
    reports: Mapping[str, HostReport],
    now: float,
) -> Outcome:
    """The state of a run.

    Args:
        instances: descriptions by instance id, requested before the reports; None if the user may not describe them.
        reports: what each host has written, by host.
        now: in seconds since the epoch.
    """
    hosts = host_names(launch.instance_count)
    ends = [_reported_end(reports[host]) for host in hosts if host in reports and reports[host].end]
    if len(ends) == len(hosts):
        return _merged(ends)
    if not launch.instances and not any(report.phase for report in reports.values()):
        return _without_instances(launch, now)
    if instances is None or not launch.instances:
        return _unseen(launch, reports, now, may_describe=instances is not None)
    left: list[Mapping[str, Any] | None] = [
        instances.get(name)
        for host, name in zip(hosts, launch.instances, strict=False)
        if host not in reports or not reports[host].end
    ]
    if left and all(_has_ended(instance, launch, now) for instance in left):
        if launch.silent and not ends:
            return _silent_end(launch, left)
        heard = any(report.phase for report in reports.values())
        return _merged([*ends, *(_unreported_end(instance, heard=heard) for instance in left)])
    return _in_progress([instance for instance in left if instance is not None], reports)


def with_instances(launch: LaunchRecord, instances: Mapping[str, Mapping[str, Any]] | None) -> LaunchRecord:
    """The record with the ids of the instances that carry its run's tag, if its submission ended before it wrote them.

    Args:
        instances: descriptions of the instances with the run's tag by id; None if the user may not describe them.
    """
    if launch.instances or not instances:
        return launch
    launches: dict[str, list[str]] = {}
    for name, instance in instances.items():
        launches.setdefault(instance.get("ClientToken", ""), []).append(name)

    def is_over(names: list[str]) -> bool:
        return all(_state(instances[name]) in _ENDED_STATES for name in names)

    names = min(launches.values(), key=is_over)
    names.sort(key=lambda name: instances[name].get("AmiLaunchIndex", 0))
    return replace(launch, instances=tuple(names))


def is_overdue(launch: LaunchRecord, now: float) -> bool:
    """Whether a launch without instances has taken so long that its submission must have ended."""
    return now - (launch.launching or launch.created) > LAUNCH_SECONDS


def living_instances(
    launch: LaunchRecord, instances: Mapping[str, Mapping[str, Any]] | None
) -> tuple[str, ...]:
    """The ids of a run's instances that are not terminated."""
    known = instances or {}
    return tuple(
        name
        for name in launch.instances
        if (one := known.get(name)) is not None and _state(one) not in (*_ENDED_STATES, "shutting-down")
    )


def _merged(ends: Sequence[Outcome]) -> Outcome:
    """The end of a run whose hosts have all ended: the first failure, since the other hosts fail because of it.

    An interruption comes before failures: a host that is taken away lets the others fail. Of those that were stopped, one
    that says more than `Stopped` was stopped first.
    """

    def order(one: Outcome) -> tuple[bool, int, bool, float]:
        return (
            not one.interrupted,
            _rank(one.status),
            one.secondary_status == one.status,
            one.ended or 0.0,
        )

    first = min(ends, key=order)
    return replace(
        first,
        ended=max((outcome.ended or 0.0 for outcome in ends), default=0.0) or None,
        notes=tuple(dict.fromkeys(note for outcome in ends for note in outcome.notes)),
    )


def _reported_end(report: HostReport) -> Outcome:
    """The end of a host that has reported it."""
    end, status = report.end, str(report.end.get("status"))
    code = end.get("exit_code")
    return Outcome(
        status if status in _WORST_FIRST else FAILED,
        str(end.get("secondary_status") or status),
        end.get("failure_reason") or None,
        ended=report.end_time("ended"),
        exit_code=code if isinstance(code, int) else None,
        interrupted=bool(end.get("interrupted")),
        notes=tuple(map(str, end.get("notes") or ())),
    )


def _unreported_end(instance: Mapping[str, Any] | None, *, heard: bool) -> Outcome:
    """The end of an instance whose host has not reported it.

    Args:
        heard: whether any host of the run has reported anything.
    """
    reason = state_reason(instance)
    no_network = reason.code == SHUT_DOWN and not heard
    return Outcome(
        reason.status,
        "Interrupted" if reason.is_reclaimed else reason.status,
        reason.text,
        reason.code,
        ended=None if instance is None else transition_time(instance),
        interrupted=reason.is_reclaimed,
        notes=(_NO_NETWORK,) if no_network else (),
    )


def _silent_end(launch: LaunchRecord, instances: Sequence[Mapping[str, Any] | None]) -> Outcome:
    """The end of a run whose instances a client has terminated because they had reported nothing."""
    times = [time for instance in instances if instance is not None and (time := transition_time(instance))]
    ended = max(times, default=launch.silent)
    if launch.stopped:
        reason = "its instance was terminated: it had reported nothing, so that it could not act on the request to stop"
        return Outcome(STOPPED, STOPPED, reason, ended=ended)
    waited = format_duration(launch.silent - (launch.launching or launch.created))
    reason = (
        f"its instance was terminated: it had reported nothing in {waited}. Its image may not run user data "
        "(cloud-init), or the instance does not reach S3"
    )
    return Outcome(FAILED, FAILED, reason, NO_SIGN_OF_LIFE, ended=ended)


def _without_instances(launch: LaunchRecord, now: float) -> Outcome:
    if launch.stopped:
        reason = "it was stopped before an instance was launched"
        return Outcome(STOPPED, NEVER_LAUNCHED, reason, ended=launch.stopped)
    if not is_overdue(launch, now):
        return Outcome(IN_PROGRESS, _START, message="its instance is being launched")
    reason = "no instance was launched: the submission did not finish"
    return Outcome(FAILED, NEVER_LAUNCHED, reason, ended=launch.launching or launch.created)


def _unseen(
    launch: LaunchRecord, reports: Mapping[str, HostReport], now: float, *, may_describe: bool
) -> Outcome:
    """The state of a run whose instances may not be described, or whose record has none although they have reported."""
    why = (
        "its launch record names none"
        if may_describe
        else "you may not describe instances (ec2:DescribeInstances)"
    )
    note = f"the state of its instance is unknown: {why}"
    if now - launch.created > launch.max_duration + _OVERDUE_SECONDS:
        reason = "it left no report within its time limit"
        return Outcome(FAILED, FAILED, reason, notes=(note,))
    return Outcome(IN_PROGRESS, _phase(reports), notes=(note,))


def _in_progress(described: Sequence[Mapping[str, Any]], reports: Mapping[str, HostReport]) -> Outcome:
    states = [_state(description) for description in described]
    is_stopping = any(STOP_TAG in tag_dict(description.get("Tags", ())) for description in described)
    status = STOPPING if is_stopping or any(state in _ENDING_STATES for state in states) else IN_PROGRESS
    message = None
    if not any(report.phase for report in reports.values()):
        message = "its instance boots" if "running" in states else "EC2 starts its instance"
    if any(state in _ENDING_STATES for state in states):
        message = "its instance shuts down"
    if "stopped" in states:
        message = "its instance is stopped, not terminated: its volume is billed"
    return Outcome(status, _phase(reports), message=message)


def _has_ended(instance: Mapping[str, Any] | None, launch: LaunchRecord, now: float) -> bool:
    if instance is None:
        return now - launch.created > _VISIBLE_SECONDS
    return _state(instance) in _ENDED_STATES


def _phase(reports: Mapping[str, HostReport]) -> str:
    """The phase of the first host that has reported one."""
    return next((report.phase for report in reports.values() if report.phase), _START)


def _state(instance: Mapping[str, Any]) -> str:
    return instance.get("State", {}).get("Name", "")


def _rank(status: str) -> int:
    return _WORST_FIRST.index(status) if status in _WORST_FIRST else 0
