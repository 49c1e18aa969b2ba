"""Finds the checkpoints of an earlier run of a job, from which a new run continues."""

from __future__ import annotations

from dataclasses import dataclass

from gpuproof.agent.state import COMPLETED, ENDED
from gpuproof.backends.aws import Aws
from gpuproof.backends.remote.run_id import created_after, stamp_in
from gpuproof.backends.sagemaker.tracking.records import TAG_JOB, TAG_RUN
from gpuproof.backends.sagemaker.tracking.result_locations import find_checkpoints
from gpuproof.jobs.models.script_jobs import TrainingJob

_NAME_PREFIX = 40
"""Characters of a job's name that are contained in the names of all its runs."""

_KINDS = ("sagemaker:training-job",)
_MOST_RUNS = 20
"""Number of runs to check: runs that failed early left no checkpoints."""


@dataclass(frozen=True)
class EarlierCheckpoints:
    """The checkpoints of an earlier run.

    Args:
        address: their `s3://` prefix.
    """

    address: str
    run_id: str


def find_earlier_checkpoints(aws: Aws, job: TrainingJob, bucket: str) -> EarlierCheckpoints | None:
    """The checkpoints of the newest earlier run that did not complete and left some.

    None if a newer run completed or was started with `--fresh`; runs in progress are skipped.

    Raises:
        AwsRefused: the user may not list jobs, or not find them by their tags.
    """
    # By tags and not by names: every account has jobs with `train` in their names.
    runs = {arn: tags for arn, tags in aws.tagged(TAG_JOB, [job.name], _KINDS) if tags.get(TAG_RUN)}
    left = sorted(runs, key=lambda arn: stamp_in(runs[arn][TAG_RUN]), reverse=True)[:_MOST_RUNS]
    if not left:
        return None
    since = created_after(runs[arn][TAG_RUN] for arn in left)
    for summary in aws.list_jobs("training", name_contains=job.name[:_NAME_PREFIX], created_after=since):
        arn, name, status = (summary[f"TrainingJob{word}"] for word in ("Arn", "Name", "Status"))
        if arn not in left:
            continue
        left.remove(arn)
        if status == COMPLETED:
            return None
        if status in ENDED:
            description = aws.describe_job("training", name) or {}
            if (address := find_checkpoints(aws, description, bucket)) is not None:
                return EarlierCheckpoints(address, name)
        if runs[arn].get("gpuproof:fresh") == "true" or not left:
            return None
    return None
