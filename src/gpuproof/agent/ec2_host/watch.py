"""Signs of life for the watchdog, and reasons to end the job: a stop request, an interruption of the instance, the time.

A rebalance recommendation says that a spot instance is at elevated risk of interruption; EC2 may never take it back:
https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/rebalance-recommendations.html
"""

from __future__ import annotations

import enum
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable

from gpuproof.agent.ec2_host.metadata import Metadata
from gpuproof.agent.ec2_host.parameters import HostParameters

STOP_TAG = "gpuproof:stop"
"""The tag that asks an instance to stop its job; the client sets it."""

_REBALANCE = "meta-data/events/recommendations/rebalance"
_BEAT_S = 30.0
_STEP_S = 0.2
_LONGEST_MARGIN_S = 300.0
_MARGIN = 0.1


class Reason(enum.Enum):
    """Why a job is ended."""

    STOP = "stop"
    TIME = "time"
    INTERRUPTED = "interrupted"
    SHUTDOWN = "shutdown"


@dataclass(frozen=True)
class Event:
    """A reason to end the job."""

    reason: Reason
    text: str

    @property
    def secondary_status(self) -> str:
        """As in SageMaker's `SecondaryStatus`."""
        return {Reason.TIME: "MaxRuntimeExceeded", Reason.INTERRUPTED: "Interrupted"}.get(
            self.reason, "Stopped"
        )

    @property
    def in_a_hurry(self) -> bool:
        """Whether the instance is taken away, within two minutes at most."""
        return self.reason in (Reason.INTERRUPTED, Reason.SHUTDOWN)


class Ended(Exception):
    """The job has to end before it was started; `event` is the reason."""

    def __init__(self, event: Event) -> None:
        super().__init__(event.text)
        self.event = event


def uptime() -> float:
    """Seconds since the boot; unlike the clock, nothing sets it."""
    return float(Path("/proc/uptime").read_text(encoding="ascii").split()[0])


def read_started(state: Path) -> float | None:
    """The uptime when user data started; None if it could not write that down."""
    try:
        return float((state / "started").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


class Watch:
    """Gives signs of life and finds reasons to end the job, whenever something waits.

    Args:
        alive: the file that the watchdog reads: the uptime in whole seconds.
        clock: the uptime in seconds.
        started: the uptime when user data started, from which on `max_duration` counts; now if None.
    """

    def __init__(
        self,
        parameters: HostParameters,
        metadata: Metadata,
        alive: Path,
        clock: Callable[[], float] = uptime,
        started: float | None = None,
    ) -> None:
        self._metadata = metadata
        self._alive = alive
        self._clock = clock
        self._interval = parameters.watch_interval
        self._beat_s = min(_BEAT_S, parameters.silence / 4)
        # The rest of the time is for the uploads.
        margin = min(_LONGEST_MARGIN_S, _MARGIN * parameters.max_duration)
        self._end = (clock() if started is None else started) + parameters.max_duration - margin
        self._limit = parameters.max_duration
        self._stops_at_rebalance = parameters.rebalance == "stop"
        self._next_beat = self._next_look = 0.0
        self.event: Event | None = None
        self.raises = True
        """Whether to raise `Ended`, once there is a reason."""
        self.risk: str | None = None
        """When EC2 said that it may take the spot instance back; None if it has not."""

    def install(self) -> None:
        """Regard SIGTERM, which the system sends when it shuts down, as a reason."""
        signal.signal(signal.SIGTERM, self._handle)

    def wait(self, seconds: float) -> None:
        """Wait, and look around.

        Raises:
            Ended: there is a reason to end the job, and `raises` is set.
        """
        until = self._clock() + seconds
        while True:
            self.look()
            left = until - self._clock()
            if left <= 0:
                return
            time.sleep(min(left, _STEP_S))

    def look(self) -> None:
        """Give a sign of life and look for reasons, where it is time; as `wait`."""
        now = self._clock()
        if now >= self._next_beat:
            self._next_beat = now + self._beat_s
            self._write_beat(now)
        if self.event is None and now >= self._next_look:
            self._next_look = now + self._interval
            self.event = self._find(now)
        if self.event is not None and self.raises:
            raise Ended(self.event)

    def _write_beat(self, now: float) -> None:
        try:
            self._alive.write_text(f"{int(now)}\n", encoding="ascii")
        except OSError:
            pass  # /run is full: the watchdog will decide

    def _find(self, now: float) -> Event | None:
        if now >= self._end:
            return Event(
                Reason.TIME, f"the job was stopped because max_duration ({self._limit:.0f} s) is over soon"
            )
        if self._metadata.get(f"meta-data/tags/instance/{STOP_TAG}") is not None:
            return Event(Reason.STOP, "the job was stopped")
        if (action := self._metadata.get_object("meta-data/spot/instance-action")) is not None:
            return Event(
                Reason.INTERRUPTED,
                f"EC2 takes the spot instance back ({action.get('action')} at {action.get('time')})",
            )
        if self.risk is None and (notice := self._metadata.get_object(_REBALANCE)) is not None:
            self.risk = str(notice.get("noticeTime"))
            if self._stops_at_rebalance:
                return Event(
                    Reason.INTERRUPTED,
                    "EC2 sent a rebalance recommendation for the spot instance (rebalance: stop)",
                )
        return None

    def _handle(self, *_: Any) -> None:
        if self.event is None:
            self.event = Event(Reason.SHUTDOWN, "the instance was shut down")
