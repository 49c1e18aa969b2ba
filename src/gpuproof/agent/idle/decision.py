"""Decides when a machine has been idle for long enough, from what was seen at single moments."""

from __future__ import annotations

from dataclasses import dataclass

from gpuproof.util.humanize import format_duration

UNKNOWN_FACTOR = 2.0
"""While Jupyter or a GPU cannot be read, idleness has to last this many times longer."""


@dataclass(frozen=True)
class JupyterActivity:
    """What Jupyter reports.

    Args:
        busy: kernels that execute something, or start.
        marks: for each kernel and terminal, its id and when it was last active; a new or changed one is activity.
    """

    busy: int
    marks: frozenset[tuple[str, str]]


@dataclass(frozen=True)
class Look:
    """What was seen at one moment.

    Args:
        jupyter: `None` if Jupyter could not be asked, or does not run.
        gpu_works: whether any GPU did work since the last look; `None` if the GPUs cannot be read.
        shell_open: whether a shell is open on the machine.
    """

    jupyter: JupyterActivity | None
    gpu_works: bool | None
    shell_open: bool = False


class IdleTracker:
    """When a machine was last active.

    The times are of one monotonic clock, in seconds. Jupyter's own times are only compared with each other, because the
    machine's clock may be changed. A kernel that is only open, or that holds GPU memory without computing, is idle.

    Args:
        timeout: seconds without activity after which the machine is idle.
        now: the time at the start, which counts as activity.
        has_jupyter: whether a Jupyter server is expected to run.
    """

    def __init__(self, timeout: float, now: float, *, has_jupyter: bool = True) -> None:
        self._timeout = timeout
        self._has_jupyter = has_jupyter
        self._active = now
        self._marks: frozenset[tuple[str, str]] | None = None
        self._known = (True, True)

    def note(self, look: Look, now: float) -> None:
        """Add what was seen."""
        jupyter = look.jupyter
        if look.gpu_works or look.shell_open or (jupyter is not None and self._was_used(jupyter)):
            self._active = now
        if jupyter is not None:
            self._marks = jupyter.marks
        self._known = (jupyter is not None or not self._has_jupyter, look.gpu_works is not None)

    def idle_seconds(self, now: float) -> float:
        """Seconds since the last activity."""
        return now - self._active

    def seconds_left(self, now: float) -> float:
        """Seconds until the machine is idle if nothing happens; 0 or less if it is."""
        return self._limit() - self.idle_seconds(now)

    def reason(self, now: float) -> str | None:
        """Why the machine is idle, in a sentence for the user; `None` while it is not.

        If Jupyter or the GPUs cannot be read, nothing is known against the machine's being used, but it may also never be
        known: then it takes `UNKNOWN_FACTOR` times as long.
        """
        if self.seconds_left(now) > 0:
            return None
        asked, read = self._known
        if not self._has_jupyter:
            first = "no shell was open"
        else:
            first = "no kernel was busy" if asked else "Jupyter did not answer"
        second = "no GPU worked" if read else "the GPUs could not be read"
        return f"idle for {format_duration(self._limit())}: {first} and {second}"

    def _limit(self) -> float:
        return self._timeout if all(self._known) else self._timeout * UNKNOWN_FACTOR

    def _was_used(self, jupyter: JupyterActivity) -> bool:
        # A kernel that was only shut down is no activity.
        return jupyter.busy > 0 or (self._marks is not None and bool(jupyter.marks - self._marks))
