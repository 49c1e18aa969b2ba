"""The kinds of job: how SageMaker names the members of their documents, and which statuses they have."""

from __future__ import annotations

from dataclasses import dataclass

from gpuproof_emulator.store import PROCESSING, TRAINING, TRANSFORM, Resource

ACTIVE = ("InProgress", "Stopping")
"""Statuses of a job that has not ended."""


@dataclass(frozen=True)
class JobKind:
    """A kind of job.

    Args:
        resource: the kind of its resources, as in their ARNs.
        word: `Training`, `Processing` or `Transform`, with which the names of operations and members begin.
    """

    resource: str
    word: str

    @property
    def name_member(self) -> str:
        """Member of the request and the document that holds the job's name."""
        return f"{self.word}JobName"

    @property
    def status_member(self) -> str:
        """Member that holds the job's status."""
        return f"{self.word}JobStatus"

    @property
    def end_member(self) -> str:
        """Member that holds the time at which the job ended."""
        return f"{self.word}EndTime"

    @property
    def log_group(self) -> str:
        """The CloudWatch log group of all jobs of this kind."""
        return f"/aws/sagemaker/{self.word}Jobs"

    def is_active(self, job: Resource) -> bool:
        """Whether a job has not ended."""
        return job.document[self.status_member] in ACTIVE


TRAINING_JOB = JobKind(TRAINING, "Training")
PROCESSING_JOB = JobKind(PROCESSING, "Processing")
TRANSFORM_JOB = JobKind(TRANSFORM, "Transform")
JOB_KINDS = {kind.resource: kind for kind in (TRAINING_JOB, PROCESSING_JOB, TRANSFORM_JOB)}
"""Kinds of job, by the kind of their resources."""
