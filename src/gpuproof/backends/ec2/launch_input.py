"""What the request that launches an instance reads of a plan; it is separate because the plan itself builds that request."""

from __future__ import annotations

from typing import Protocol

from gpuproof.backends.ec2.target import InstanceProfile
from gpuproof.jobs.models.script_jobs import Job


class LaunchInput(Protocol):
    """The part of `gpuproof.backends.ec2.plan.EC2Plan` that RunInstances depends on."""

    @property
    def job(self) -> Job:
        """The job, with absolute paths."""
        ...

    @property
    def run_id(self) -> str:
        """The run."""
        ...

    @property
    def region(self) -> str:
        """The job's own region, where its files are."""
        ...

    @property
    def bucket_name(self) -> str:
        """The bucket of the run's files."""
        ...

    @property
    def profile(self) -> InstanceProfile:
        """The instance profile."""
        ...

    def security_groups(self, region: str) -> tuple[str, ...]:
        """Ids of the security groups in a region; empty if the submission creates the group."""
        ...

    @property
    def spot(self) -> bool:
        """Whether spot capacity is requested."""
        ...
