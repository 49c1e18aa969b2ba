"""How long the agents wait for each other."""

from __future__ import annotations

from dataclasses import dataclass

from gpuproof.agent.job import AgentJob

STOP_GRACE = 10.0
"""Seconds between SIGTERM and SIGKILL when another host has failed: there is nothing left to wait for."""


@dataclass(frozen=True)
class Timing:
    """Durations in seconds.

    Args:
        rendezvous: within which the agents of all hosts have to reach the first host's.
        lost: without any message, after which a host counts as lost. Longer than a machine pauses for memory or disk.
        own: after a failure, within which an earlier one may be reported by another host.
        consequence: the same if all failures so far may be consequences of another one: launchers need seconds to notice.
        absent: after a failure before the start, how long a host that has not reported yet can still connect and learn of it.
        stall: without progress on any host, after which the job is stopped; `None` is never.
    """

    rendezvous: float = 600.0
    heartbeat: float = 5.0
    lost: float = 60.0
    own: float = 1.0
    consequence: float = 3.0
    absent: float = 10.0
    stacks: float = 60.0
    stall: float | None = None

    @classmethod
    def of(cls, job: AgentJob) -> Timing:
        """The durations for a job."""
        if job.stall_timeout is None:
            return cls(rendezvous=job.rendezvous_timeout)
        heartbeat = min(cls.heartbeat, max(job.stall_timeout / 4, 0.25))
        return cls(rendezvous=job.rendezvous_timeout, heartbeat=heartbeat, stall=job.stall_timeout)
