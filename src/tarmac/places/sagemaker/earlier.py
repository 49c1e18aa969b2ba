"""Checkpoints that an earlier run of the job left: a new run goes on from them."""

from __future__ import annotations

from dataclasses import dataclass

from tarmac.agent.state import COMPLETED, ENDED
from tarmac.jobs.spec import TrainingJob
from tarmac.places.aws import Aws, AwsRefused
from tarmac.places.sagemaker.layout import CHECKPOINTS, uri
from tarmac.places.sagemaker.records import job_name_in

_LOOKED_AT = 20
"""Runs of the job that are looked at: of those that failed early, none left checkpoints."""


@dataclass(frozen=True)
class Earlier:
    """What an earlier run left.

    Args:
        address: the `s3://` prefix of its checkpoints.
        run_id: the run.
    """

    address: str
    run_id: str


def earlier_checkpoints(aws: Aws, job: TrainingJob, bucket: str) -> Earlier | None:
    """The checkpoints of the newest earlier run that did not complete, and left some.

    None where a newer one completed or was told to begin afresh; runs that are still going are passed over.

    Raises:
        AwsRefused: the jobs may not be listed.
    """
    seen = 0
    for summary in aws.list_jobs("training", name_contains=job.name[:40]):
        name, status = summary["TrainingJobName"], summary["TrainingJobStatus"]
        if not _may_be(name, job.name):
            continue
        seen += 1
        if seen > _LOOKED_AT:
            return None
        tags = aws.tags(summary["TrainingJobArn"])
        if tags.get("tarmac:job") != job.name:
            continue
        if status == COMPLETED:
            return None
        if status in ENDED and (address := _left(aws, name, bucket)) is not None:
            return Earlier(address, name)
        if tags.get("tarmac:fresh") == "true":
            return None
    return None


def _may_be(run_id: str, job_name: str) -> bool:
    """Whether a run is one of the job's by its name, which holds as much of the job's as there was room for."""
    beginning = job_name_in(run_id)
    return beginning != run_id and job_name.startswith(beginning)


def _left(aws: Aws, run_id: str, bucket: str) -> str | None:
    description = aws.describe_job("training", run_id) or {}
    address: str = description.get("CheckpointConfig", {}).get("S3Uri", "")
    own = uri(bucket, CHECKPOINTS)
    if not address.startswith(own):
        return None
    key = address.removeprefix(uri(bucket, ""))
    try:
        return address if next(aws.list_objects(bucket, key), None) is not None else None
    except AwsRefused:
        return None
