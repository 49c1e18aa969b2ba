"""Waiting for the containers of one job: for their end, for whoever stops them, and for deadlines."""

from __future__ import annotations

import enum
import signal
import threading
import time
from collections.abc import Callable, Sequence

from gpuproof.emulator.execution.host import Host


class Why(enum.Enum):
    """Why the containers of a job ended."""

    OVER = "they ended by themselves"
    STOPPED = "somebody stopped the job"
    TIME = "the time is up"
    INTERRUPTED = "the spot instances were taken"
    SHUTDOWN = "the emulator ends"


class Control:
    """What others may want of a running job."""

    def __init__(self) -> None:
        self._wake = threading.Event()
        self.stop_asked = False
        self.shut_down = False
        self.interrupted = False

    def wake(self) -> None:
        """Have the job's thread look again."""
        self._wake.set()

    def stop(self) -> None:
        """Ask for the job to be stopped."""
        self.stop_asked = True
        self._wake.set()

    def interrupt(self) -> None:
        """Take the spot instances."""
        self.interrupted = True
        self._wake.set()

    def shutdown(self) -> None:
        """End the job without any ceremony, because the emulator ends."""
        self.shut_down = True
        self._wake.set()

    def sleep(self, seconds: float) -> None:
        """Wait, but no longer than until somebody wants something."""
        if self._wake.wait(max(0.0, seconds)):
            self._wake.clear()

    def pause(self, seconds: float) -> None:
        """Wait so long, unless the job is to end."""
        end = time.monotonic() + seconds
        while not self.stop_asked and not self.shut_down and (left := end - time.monotonic()) > 0:
            self.sleep(left)


def watch(
    hosts: Sequence[Host],
    control: Control,
    *,
    deadline: float,
    interruption: float | None,
    grace: float,
    tick: Callable[[], None],
    interval: float,
) -> Why:
    """Wait until all containers have ended, and end them where they must.

    Args:
        deadline: of the job, by the monotonic clock.
        interruption: when the instances are taken, by the monotonic clock.
        grace: seconds between SIGTERM and SIGKILL.
        tick: called every `interval` seconds.
    """
    why = Why.OVER
    while True:
        if control.shut_down:
            _end(hosts, control, 0)
            return Why.SHUTDOWN
        if all(host.outcome is not None for host in hosts):
            return why
        if any(host.outcome is not None and host.outcome.code != 0 for host in hosts):
            # One that fails takes the job down.
            _end(hosts, control, grace)
            return why
        moment = time.monotonic()
        if control.stop_asked:
            why = Why.STOPPED
        elif control.interrupted or (interruption is not None and moment >= interruption):
            why = Why.INTERRUPTED
        elif moment >= deadline:
            why = Why.TIME
        if why is not Why.OVER:
            _end(hosts, control, grace)
            return why
        tick()
        ends = [deadline, moment + interval, *([interruption] if interruption is not None else [])]
        control.sleep(min(ends) - time.monotonic())


def _end(hosts: Sequence[Host], control: Control, grace: float) -> None:
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
