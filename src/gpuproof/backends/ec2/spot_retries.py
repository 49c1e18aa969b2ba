"""How often a run is started again after a spot interruption, and which attempts there were before."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpuproof.backends.ec2.launch_record import InterruptedRun
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
