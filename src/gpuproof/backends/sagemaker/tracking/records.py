"""Builds a `RunRecord` from a job's description and tags, which are the same on every machine."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any

from gpuproof.agent.failure import StopReason, split_code
from gpuproof.agent.state import FAILED, VERSION
from gpuproof.backends.aws import SageMakerKind
from gpuproof.backends.aws.errors import CAPACITIES
from gpuproof.backends.record import RunRecord
from gpuproof.backends.remote.run_id import job_name_in
from gpuproof.backends.sagemaker.tracking.cost import bill_of, fleets_of, hourly_price
from gpuproof.catalogue import Catalogue
from gpuproof.util.versions import version_key

TAG_RUN, TAG_JOB, TAG_INSTANCE, TAG_BUCKET = (
    "gpuproof:run",
    "gpuproof:job",
    "gpuproof:instance",
    "gpuproof:bucket",
)
LOG_GROUPS: Mapping[SageMakerKind, str] = {
    "training": "/aws/sagemaker/TrainingJobs",
    "processing": "/aws/sagemaker/ProcessingJobs",
}
"""The groups of CloudWatch Logs that SageMaker writes to."""

TAG_REMOVED = "gpuproof:removed"
TAG_VERDICT, TAG_REQUIREMENT = "gpuproof:verdict", "gpuproof:gpu-requirement-met"
"""Outcome of the verdict; listings show it without reading the verdict in S3. Set by the first command that reads it."""
TAG_DRIVER = "gpuproof:driver"
"""Version of the host's NVIDIA driver, set with the verdict; the default image of later jobs depends on it."""

_EXIT_CODE = re.compile(r"exit ?code:? ?(\d+)", re.IGNORECASE)
_OF_CONTAINER = re.compile(r"(?:AlgorithmError|.*exit ?code)", re.IGNORECASE)
"""Failure reasons that quote the container's failure file, up to a kilobyte of traceback."""


def record_of(
    kind: SageMakerKind,
    description: Mapping[str, Any],
    tags: Mapping[str, str],
    catalogue: Catalogue,
    *,
    region: str,
    now: float,
    verdict: Mapping[str, Any] | None = None,
    state: Mapping[str, Any] | None = None,
) -> RunRecord:
    """The record of a job.

    Args:
        description: the response of DescribeTrainingJob or DescribeProcessingJob.
        now: the time in AWS's response, in seconds since the epoch.
        verdict: the job's `verdict.json`, if it has one.
        state: the merged `run.json` of its agents.
    """
    word = "Training" if kind == "training" else "Processing"
    stop_reason, _ = _reason(description)
    fleets = fleets_of(kind, description)
    price = hourly_price(fleets, catalogue, region, kind)
    bill = bill_of(kind, description, price.usd if price else None, now)
    transition = last_transition(description)
    document: dict[str, Any] = {
        **_common_fields(kind, description, tags, region),
        "status_message": transition.get("StatusMessage"),
        "status_since": _seconds(transition.get("StartTime") or description.get("LastModifiedTime")),
        "script_started": _script_started(kind, description),
        "instances_started": _seconds(description.get(f"{word}StartTime")),
        "instance_type": fleets[0].instance_type if fleets else None,
        "instance_count": sum(fleet.count for fleet in fleets) or 1,
        "image": _image(kind, description),
        "spot": bool(description.get("EnableManagedSpotTraining")),
        "interruptions": interruptions(description),
        "billed_seconds": bill.seconds if bill else None,
        "cost_usd": bill.usd if bill else None,
        "cost_is_derived": bool(bill and price and price.derived),
        "spot_saving": bill.spot_saving if bill else None,
        "metrics": {
            metric["MetricName"]: metric["Value"] for metric in description.get("FinalMetricDataList") or ()
        },
        "notes": _notes(description),
    }
    if verdict is not None:
        document |= {
            "verdict": verdict.get("outcome"),
            "gpu_requirement_met": verdict.get("gpu_requirement_met", True),
        }
    elif TAG_VERDICT in tags:
        document |= _tagged_verdict(tags)
    elif tags.get("gpuproof:require-gpu") == "true":
        # A GPU was required, and it is unknown whether one did any work.
        document["gpu_requirement_met"] = None
    if stop_reason is StopReason.GPU_UNUSED:
        document["stopped_for_unused_gpu"] = True
    return RunRecord.of(document | _agent_fields(state or {}, document))


def listed_record(
    kind: SageMakerKind, summary: Mapping[str, Any], tags: Mapping[str, str], region: str
) -> RunRecord:
    """The record of a job from a listing and its tags, without start time and cost.

    Args:
        summary: an entry of ListTrainingJobs or ListProcessingJobs.
    """
    instance, count = read_instance_tag(tags.get(TAG_INSTANCE, ""))
    common = _common_fields(kind, summary, tags, region)
    return RunRecord.of(
        {**common, **_tagged_verdict(tags), "instance_type": instance, "instance_count": count}
    )


def verdict_tags(verdict: Mapping[str, Any]) -> dict[str, str]:
    """The tags for a verdict."""
    met = verdict.get("gpu_requirement_met", True)
    requirement = {} if met is None else {TAG_REQUIREMENT: str(bool(met)).lower()}
    # With several hosts, that of the oldest driver.
    versions = sorted((verdict.get("driver_version") or "").split(", "), key=version_key)
    driver = {TAG_DRIVER: versions[0]} if versions[0] else {}
    return {TAG_VERDICT: str(verdict.get("outcome")), **requirement, **driver}


def read_instance_tag(value: str) -> tuple[str | None, int]:
    """Parse `ml.g5.xlarge` or `2 x ml.g5.xlarge` into the type and the count."""
    count, separator, instance = value.partition(" x ")
    if separator and count.isdigit():
        return instance, int(count)
    return value or None, 1


def capacity_error_code(record: RunRecord) -> str | None:
    """The error code of a run that never started because AWS had no capacity; None for any other run."""
    if record.status != FAILED or record.started is not None or not record.failure_reason:
        return None
    return next((code for code in CAPACITIES if code in record.failure_reason), None)


def response_time(description: Mapping[str, Any]) -> float:
    """The time of AWS's response in seconds since the epoch, since this machine's clock may be wrong."""
    date = description.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date")
    try:
        return parsedate_to_datetime(date).timestamp()
    except (TypeError, ValueError):
        return time.time()


def last_transition(description: Mapping[str, Any]) -> Mapping[str, Any]:
    """A training job's newest secondary status transition: `Status`, `StartTime`, `StatusMessage`."""
    transitions: Sequence[Mapping[str, Any]] = description.get("SecondaryStatusTransitions") or ()
    return transitions[-1] if transitions else {}


def interruptions(description: Mapping[str, Any]) -> int:
    """How often a spot instance was reclaimed."""
    transitions: Sequence[Mapping[str, Any]] = description.get("SecondaryStatusTransitions") or ()
    return sum(transition.get("Status") == "Interrupted" for transition in transitions)


def exit_code_in(status: str, reason: str | None) -> int | None:
    """The script's exit code in a failure reason such as `AlgorithmError: , exit code: 137`."""
    if status == "Completed":
        return 0
    found = _EXIT_CODE.search(reason or "")
    return int(found[1]) if found else None


def name_in(arn: str) -> tuple[SageMakerKind, str] | None:
    """A job's kind and name from its ARN; `None` for other ARNs."""
    resource = arn.rpartition(":")[2]
    what, _, name = resource.partition("/")
    if what == "training-job":
        return "training", name
    return ("processing", name) if what == "processing-job" else None


def _common_fields(
    kind: SageMakerKind, described: Mapping[str, Any], tags: Mapping[str, str], region: str
) -> dict[str, Any]:
    """The fields that descriptions and listings have in common."""
    word = "Training" if kind == "training" else "Processing"
    name, status = described[f"{word}JobName"], described[f"{word}JobStatus"]
    _, reason = _reason(described)
    return {
        "version": VERSION,
        "id": name,
        "job_name": tags.get(TAG_JOB) or job_name_in(name),
        "kind": kind,
        "backend": "sagemaker",
        "region": region,
        "arn": described[f"{word}JobArn"],
        "status": status,
        "secondary_status": described.get("SecondaryStatus") or status,
        "created": _seconds(described["CreationTime"]),
        "ended": _seconds(described.get(f"{word}EndTime")),
        "exit_code": exit_code_in(status, reason),
        "failure_reason": reason,
        "tags": dict(tags),
    }


def _tagged_verdict(tags: Mapping[str, str]) -> dict[str, Any]:
    """The fields of a verdict that is known from tags; empty without them."""
    if TAG_VERDICT not in tags:
        return {}
    met = {"true": True, "false": False}.get(tags.get(TAG_REQUIREMENT, ""))
    return {"verdict": tags[TAG_VERDICT], "gpu_requirement_met": met}


def _reason(described: Mapping[str, Any]) -> tuple[StopReason | None, str | None]:
    """The agent's code for ending the job, if the failure reason has one, and the reason without it."""
    reason = described.get("FailureReason") or described.get("ExitMessage")
    return split_code(reason) if reason else (None, None)


def _agent_fields(state: Mapping[str, Any], document: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that the agent knows more precisely than SageMaker."""
    fields = {
        name: state[name]
        for name in ("command", "variables", "frameworks", "stopped_for_unused_gpu", "provenance")
        if name in state
    }
    if isinstance(state.get("exit_code"), int):
        fields["exit_code"] = state["exit_code"]
    reason = state.get("failure_reason")
    if reason and _OF_CONTAINER.match(document["failure_reason"] or ""):
        fields["reason"] = reason
    fields["notes"] = [*document["notes"], *state.get("notes", ())]
    return fields


def _script_started(kind: SageMakerKind, description: Mapping[str, Any]) -> float | None:
    """When the container started: a training job's first `Training` state, or a processing job's start time."""
    if kind == "processing":
        return _seconds(description.get("ProcessingStartTime"))
    for transition in description.get("SecondaryStatusTransitions") or ():
        if transition.get("Status") == "Training":
            return _seconds(transition.get("StartTime"))
    return None


def _image(kind: SageMakerKind, description: Mapping[str, Any]) -> str | None:
    if kind == "processing":
        return description.get("AppSpecification", {}).get("ImageUri")
    return description.get("AlgorithmSpecification", {}).get("TrainingImage")


def _notes(description: Mapping[str, Any]) -> list[str]:
    notes: list[str] = []
    if count := interruptions(description):
        times = "once" if count == 1 else f"{count} times"
        notes.append(f"its spot instance was reclaimed {times}")
    secondary = description.get("SecondaryStatus")
    if secondary == "Interrupted" and description.get("TrainingJobStatus") == "Stopped":
        notes.append("SageMaker does not restart it; the same `gpuproof run` continues from its checkpoints")
    if secondary == "MaxRuntimeExceeded":
        limit = description.get("StoppingCondition", {}).get("MaxRuntimeInSeconds")
        notes.append(f"stopped by its time limit ({limit} s); set --max-duration to change it")
    if secondary == "MaxWaitTimeExceeded":
        limit = description.get("StoppingCondition", {}).get("MaxWaitTimeInSeconds")
        notes.append(f"no spot capacity within {limit} s; set --max-wait to wait longer, or use --no-spot")
    return notes


def _seconds(moment: datetime | None) -> float | None:
    return None if moment is None else moment.timestamp()
