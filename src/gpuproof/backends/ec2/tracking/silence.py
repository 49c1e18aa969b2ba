"""Instances that report nothing: how long they are waited for, and what to look at when they are ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpuproof.backends.ec2.tracking.host_reports import HostReport, are_silent
from gpuproof.util.humanize import format_duration

STOP_SECONDS = 120.0
"""How long instances that have reported nothing may take to act on a request to stop: what they would lose is their boot."""

_CONSOLE_LINES = 10


@dataclass(frozen=True)
class SilenceLimits:
    """How long a client that waits for a run waits for the first report of its instances.

    Args:
        seconds: from their launch; None: without a limit, as for a run that this client has not started.
        stop_seconds: from its own request to stop.
    """

    seconds: float | None = None
    stop_seconds: float = STOP_SECONDS

    def exceeded_since(
        self,
        reports: Mapping[str, HostReport],
        now: float,
        launched: float,
        stop_requested: float | None,
    ) -> float | None:
        """Since when instances that run have reported nothing, if that is too long: since their launch or a request to stop.

        Args:
            launched: when they were launched.
            stop_requested: when this client requested the stop of their run; None if it did not.
        """
        if not are_silent(reports):
            return None
        if stop_requested is not None and now - stop_requested > self.stop_seconds:
            return stop_requested
        return launched if self.seconds is not None and now - launched > self.seconds else None


def silence_notice(instances: Sequence[str], seconds: float, run_name: str, console: Sequence[str]) -> str:
    """What a user is told when silent instances are terminated.

    Args:
        seconds: since their launch, or since the request to stop.
        console: the lines of the console of one of them; empty if there are none.
    """
    lines = [f"  {line}" for line in console[-_CONSOLE_LINES:]]
    looked = ["the last lines of its console:", *lines] if lines else ["its console is empty"]
    return "\n".join(
        [
            f"{', '.join(instances)} has reported nothing in {format_duration(seconds)}, and is terminated; {looked[0]}",
            *looked[1:],
            f"gpuproof explain {run_name} reads all of it",
        ]
    )
