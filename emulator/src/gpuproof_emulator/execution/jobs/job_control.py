"""Controls one running job: requests to stop it, deadlines, and the end of its containers."""

from __future__ import annotations

import enum
import signal
import threading
import time
from collections.abc import Callable, Sequence

from gpuproof_emulator.execution.host import Host

SHUT_DOWN = "InternalServerError: the emulator ended while the job ran. Please try again."
"""FailureReason of a job that ends because the emulator ends."""


class JobFailed(Exception):
    """The job failed; the message is its FailureReason."""


class EndReason(enum.Enum):
    """Why the containers of a job ended."""

    EXITED = "they exited by themselves"
    STOPPED = "the job was stopped"
    TIMED_OUT = "the time limit was reached"
    INTERRUPTED = "the spot instances were reclaimed"
    SHUTDOWN = "the emulator ended"


class JobControl:
    """Requests to a running job from other threads."""

    def __init__(self) -> None:
        self._wake = threading.Event()
        self.stop_requested = False
        self.shut_down = False
        self.interrupted = False

    def wake(self) -> None:
        """Wake the job's thread, so that it checks its containers."""
        self._wake.set()

    def stop(self) -> None:
        """Request that the job stops."""
        self.stop_requested = True
        self._wake.set()

    def interrupt(self) -> None:
        """Reclaim the job's spot instances."""
        self.interrupted = True
        self._wake.set()

    def shutdown(self) -> None:
        """End the job without a grace period, because the emulator ends."""
        self.shut_down = True
        self._wake.set()

    def sleep(self, seconds: float) -> None:
        """Wait until the time is over or the next request comes."""
        if self._wake.wait(max(0.0, seconds)):
            self._wake.clear()

    def pause(self, seconds: float) -> None:
        """Wait until the time is over, unless the job is to end."""
        end = time.monotonic() + seconds
        while not self.stop_requested and not self.shut_down and (left := end - time.monotonic()) > 0:
            self.sleep(left)


def wait_for_containers(
    hosts: Sequence[Host],
    control: JobControl,
    *,
    deadline: float,
    interruption: float | None,
    grace: float,
    tick: Callable[[], None],
    interval: float,
) -> EndReason:
    """Wait until all containers have ended; end them on a request, at the deadline or after a failure.

    Args:
        deadline: of the job, on the monotonic clock.
        interruption: when the spot instances are reclaimed, on the monotonic clock.
        grace: seconds between SIGTERM and SIGKILL.
        tick: called every `interval` seconds.
    """
    while True:
        if control.shut_down:
            _end(hosts, control, 0)
            return EndReason.SHUTDOWN
        if all(host.outcome is not None for host in hosts):
            return EndReason.EXITED
        if any(host.outcome is not None and host.outcome.code != 0 for host in hosts):
            # One container that fails ends the job.
            _end(hosts, control, grace)
            return EndReason.EXITED
        moment = time.monotonic()
        if reason := _reason_to_end(control, moment, deadline, interruption):
            _end(hosts, control, grace)
            return reason
        tick()
        ends = [deadline, moment + interval, *([interruption] if interruption is not None else [])]
        control.sleep(min(ends) - time.monotonic())


def _reason_to_end(
    control: JobControl, moment: float, deadline: float, interruption: float | None
) -> EndReason | None:
    if control.stop_requested:
        return EndReason.STOPPED
    if control.interrupted or (interruption is not None and moment >= interruption):
        return EndReason.INTERRUPTED
    return EndReason.TIMED_OUT if moment >= deadline else None


def _end(hosts: Sequence[Host], control: JobControl, grace: float) -> None:
    running = [host for host in hosts if host.outcome is None]
    for host in running:
        host.signal(signal.SIGTERM)
    end = time.monotonic() + grace
    while any(host.outcome is None for host in running) and (left := end - time.monotonic()) > 0:
        if control.shut_down:
            break
        control.sleep(left)
    for host in running:
        if host.outcome is None:
            host.kill()
    for host in running:
        host.join()
