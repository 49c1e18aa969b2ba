"""How often a run is started again after a spot interruption, and which attempts there were before."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpuproof.backends.ec2.launch_record import InterruptedRun
from gpuproof.errors import UsageError
from gpuproof.jobs.models.ec2 import MAX_RETRIES
from gpuproof.jobs.models.script_jobs import Job
from gpuproof.util.humanize import pluralize


@dataclass(frozen=True)
class SpotRetries:
    """The retries of a job on spot instances.

    Args:
        limit: how often it is started again at most.
        interrupted: the runs that spot interruptions have ended, oldest first.
    """

    limit: int = 0
    interrupted: tuple[InterruptedRun, ...] = ()

    @property
    def attempt(self) -> int:
        """The number of the next run, from 1."""
        return len(self.interrupted) + 1

    @property
    def left(self) -> int:
        """How often it may be started again."""
        return max(0, self.limit - len(self.interrupted))

    @property
    def text(self) -> str:
        """How often it is started again, for the user; empty for never."""
        return f"started again at most {pluralize(self.limit, 'time')}" if self.limit else ""

    def after(self, run: InterruptedRun) -> SpotRetries:
        """The retries after another interruption."""
        return replace(self, interrupted=(*self.interrupted, run))


def with_retries(job: Job, given: str | None) -> Job:
    """The job with the value of `--retry-spot`, which takes precedence over its file.

    Raises:
        UsageError: the value is not a number in range, or the job does not use spot capacity.
    """
    if given is None:
        return job
    if not (given.isascii() and given.isdecimal()) or int(given) > MAX_RETRIES:
        raise UsageError(
            f"--retry-spot {given}: not a whole number from 0 to {MAX_RETRIES}.", remedy="--retry-spot 3"
        )
    if int(given) and not job.resources.spot:
        raise UsageError("--retry-spot has no effect without spot capacity.", remedy="Add --spot.")
    settings = job.ec2.model_copy(update={"retry_spot": int(given)})
    return job.model_copy(update={"ec2": settings})
