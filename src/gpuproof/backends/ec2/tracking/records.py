"""Builds a `RunRecord` from a launch record, the instances and the reports of their hosts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gpuproof.agent.failure import StopReason, split_code
from gpuproof.agent.state import ENDED, FAILED, VERSION
from gpuproof.backends.ec2.launch_record import LaunchRecord
from gpuproof.backends.ec2.tracking.cost import attempts_of, bill_of
from gpuproof.backends.ec2.tracking.host_reports import HostReport, are_silent
from gpuproof.backends.ec2.tracking.outcome import Outcome, living_instances, outcome_of
from gpuproof.backends.record import RunRecord
from gpuproof.settings import FIRST_REPORT_SECONDS

_LEAVING_SECONDS = 600.0
"""How long an instance may take to shut down after its job has ended."""
_AGENT_FIELDS = ("command", "variables", "frameworks", "stopped_for_unused_gpu", "provenance")


def record_of(
    launch: LaunchRecord,
    instances: Mapping[str, Mapping[str, Any]] | None,
    reports: Mapping[str, HostReport],
    *,
    now: float,
    verdict: Mapping[str, Any] | None = None,
    state: Mapping[str, Any] | None = None,
) -> RunRecord:
    """The record of a run.

    Args:
        instances: descriptions by instance id, requested before the reports; None if the user may not describe them.
        reports: what each host has written, by host.
        now: in seconds since the epoch.
        verdict: the run's `verdict.json`, if it was read.
        state: the merged `run.json` of its agents; by default, that of the first report that has one.
    """
    outcome = outcome_of(launch, instances, reports, now)
    has_ended = outcome.status in ENDED
    launched = _launched(launch, instances, reports)
    bill = bill_of(launch, launched, outcome.ended if has_ended else now)
    attempts = attempts_of(launch, bill, interrupted=outcome.interrupted)
    known = (
        state
        if state is not None
        else next((report.state for report in reports.values() if report.state), {})
    )
    stop_reason, reason = split_code(outcome.reason) if outcome.reason else (None, None)
    started = _script_started(reports)
    document: dict[str, Any] = {
        "version": VERSION,
        "id": launch.run_id,
        "job_name": launch.job_name,
        "kind": launch.kind,
        "backend": "ec2",
        "region": launch.region,
        "zone": launch.zone or None,
        "instances": list(launch.instances),
        "status": outcome.status,
        "secondary_status": outcome.secondary_status,
        "status_message": outcome.message,
        "status_since": _status_since(launched, reports),
        "created": launch.created,
        "instances_started": launched,
        "script_started": started,
        "ended": outcome.ended,
        "exit_code": _exit_code(outcome, known),
        "failure_reason": reason,
        "failure_code": outcome.code or None,
        "tags": dict(launch.tags),
        "instance_type": launch.instance_type,
        "instance_count": launch.instance_count,
        "image": launch.image,
        **_container(reports),
        "spot": launch.spot,
        "interruptions": len(launch.interrupted) + int(outcome.interrupted),
        "attempt": launch.attempt,
        "earlier_runs": [item.run_id for item in launch.interrupted],
        "continued_by": launch.continued_by or None,
        "lost_seconds": attempts.lost_seconds,
        "billed_seconds": bill.seconds if bill else None,
        "cost_usd": bill.usd if bill else None,
        "cost_is_derived": bool(bill and launch.price_is_derived),
        "spot_saving": bill.spot_saving if bill else None,
        "spot_saved_usd": attempts.saved_usd,
        "all_attempts_usd": attempts.usd,
        "metrics": {},
        "notes": [
            *_notes(launch, outcome, instances, now),
            *_overdue_notes(launch, launched, instances, reports, now),
        ],
    }
    if verdict is not None:
        document |= {
            "verdict": verdict.get("outcome"),
            "gpu_requirement_met": verdict.get("gpu_requirement_met", True),
        }
    elif known.get("verdict"):
        document |= {name: known.get(name) for name in ("verdict", "gpu_requirement_met")}
    elif launch.require_gpu:
        # A GPU was required, and it is unknown whether one did any work.
        document["gpu_requirement_met"] = None
    if stop_reason is StopReason.GPU_UNUSED:
        document["stopped_for_unused_gpu"] = True
    document |= {name: known[name] for name in _AGENT_FIELDS if name in known}
    if outcome.status == FAILED and known.get("failure_reason"):
        document["reason"] = known["failure_reason"]
    noted = [text for report in reports.values() for text in report.notes]
    document["notes"] = _unique([*document["notes"], *noted, *known.get("notes", ())])
    return RunRecord.of(document)


def _container(reports: Mapping[str, HostReport]) -> dict[str, Any]:
    """The container image that the first host pulled, with its digest; nothing for a run in the AMI's own environment."""
    for report in reports.values():
        if image := report.end.get("container_image"):
            return {"container_image": image, "container_sha256": report.end.get("container_sha256") or None}
    return {}


def _exit_code(outcome: Outcome, state: Mapping[str, Any]) -> int | None:
    """The script's exit code: the agent knows which signal has ended it."""
    code = state.get("exit_code")
    return code if isinstance(code, int) else outcome.exit_code


def _launched(
    launch: LaunchRecord,
    instances: Mapping[str, Mapping[str, Any]] | None,
    reports: Mapping[str, HostReport],
) -> float | None:
    """When the first of its instances was launched: by EC2, or else by its host, in seconds since the epoch.

    EC2 forgets an instance about an hour after its end; the program on the host starts some seconds after the launch.
    """
    described = [one for name in launch.instances if (one := (instances or {}).get(name)) is not None]
    times = [
        description["LaunchTime"].timestamp() for description in described if "LaunchTime" in description
    ]
    if times:
        return min(times)
    booted = [
        time
        for report in reports.values()
        if (time := report.end_time("started") or report.time_of("Starting"))
    ]
    return min(booted, default=None)


def _script_started(reports: Mapping[str, HostReport]) -> float | None:
    times = [report.end_time("script_started") or report.time_of("Training") for report in reports.values()]
    return min((time for time in times if time), default=None)


def _status_since(launched: float | None, reports: Mapping[str, HostReport]) -> float | None:
    times = [time for report in reports.values() if report.phase and (time := report.time_of(report.phase))]
    return max(times, default=launched)


def _notes(
    launch: LaunchRecord,
    outcome: Outcome,
    instances: Mapping[str, Mapping[str, Any]] | None,
    now: float,
) -> Iterable[str]:
    if outcome.interrupted:
        again = "; the same `gpuproof run` continues from its checkpoints" if launch.checkpoints else ""
        if launch.continued_by:
            again = f"; {launch.continued_by} continues it"
        yield f"its spot instance was reclaimed{again}"
    if outcome.secondary_status == "MaxRuntimeExceeded":
        yield f"stopped by its time limit ({launch.max_duration:.0f} s); set --max-duration to change it"
    if outcome.ended is not None and now - outcome.ended > _LEAVING_SECONDS:
        for name in living_instances(launch, instances):
            yield f"its instance {name} still runs, and is billed: gpuproof stop --now {launch.run_id}"
    yield from outcome.notes


def _overdue_notes(
    launch: LaunchRecord,
    launched: float | None,
    instances: Mapping[str, Mapping[str, Any]] | None,
    reports: Mapping[str, HostReport],
    now: float,
) -> Iterable[str]:
    """What the user should know of instances that should have ended by themselves, because their image ran no user data for example."""
    if launched is None or not living_instances(launch, instances):
        return
    end = f"to end it: gpuproof stop --now {launch.run_id}"
    if now - launched > launch.max_duration + FIRST_REPORT_SECONDS:
        yield f"its instance still runs, and is billed, although its time limit is over; {end}"
    elif now - launched > FIRST_REPORT_SECONDS and are_silent(reports):
        minutes = (now - launched) / 60
        yield (
            f"its instance has reported nothing for {minutes:.0f} minutes: does its image run user data (cloud-init), and does "
            f"it reach S3? gpuproof explain {launch.run_id} reads its console; {end}"
        )


def _unique(notes: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(notes))
