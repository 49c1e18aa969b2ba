"""Checkpoints that an earlier run of the job left: a new run goes on from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpuproof.agent.state import COMPLETED, ENDED
from gpuproof.backends.aws import Aws, AwsRefused
from gpuproof.backends.sagemaker.s3_layout import CHECKPOINTS, uri
from gpuproof.backends.sagemaker.tracking.records import TAG_JOB, TAG_RUN, earliest_of, stamp_in
from gpuproof.jobs.spec import TrainingJob

_IN_NAME = 40
"""Characters of a job's name that the names of all its runs have room for."""

_KINDS = ("sagemaker:training-job",)
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
        AwsRefused: the jobs may not be listed, or not found by their tags.
    """
    # The tags know the job's runs; names do not: every account has jobs with `train` in theirs.
    runs = {arn: tags for arn, tags in aws.tagged(TAG_JOB, [job.name], _KINDS) if tags.get(TAG_RUN)}
    left = sorted(runs, key=lambda arn: stamp_in(runs[arn][TAG_RUN]), reverse=True)[:_LOOKED_AT]
    if not left:
        return None
    since = earliest_of(runs[arn][TAG_RUN] for arn in left)
    for summary in aws.list_jobs("training", name_contains=job.name[:_IN_NAME], created_after=since):
        arn, name, status = (summary[f"TrainingJob{word}"] for word in ("Arn", "Name", "Status"))
        if arn not in left:
            continue
        left.remove(arn)
        if status == COMPLETED:
            return None
        if status in ENDED:
            description = aws.describe_job("training", name) or {}
            if (address := checkpoints_left(aws, description, bucket)) is not None:
                return Earlier(address, name)
        if runs[arn].get("gpuproof:fresh") == "true" or not left:
            return None
    return None


def checkpoints_left(aws: Aws, description: Mapping[str, Any], bucket: str) -> str | None:
    """The `s3://` prefix of the checkpoints that a job left in GPUproof's place in the bucket; None if it left none.

    Args:
        description: DescribeTrainingJob's answer.
    """
    address: str = description.get("CheckpointConfig", {}).get("S3Uri", "")
    own = uri(bucket, CHECKPOINTS)
    if not address.startswith(own):
        return None
    key = address.removeprefix(uri(bucket, ""))
    try:
        return address if next(aws.list_objects(bucket, key), None) is not None else None
    except AwsRefused:
        return None
