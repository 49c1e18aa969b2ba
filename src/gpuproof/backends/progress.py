"""Callbacks through which a submission reports what it does."""

from __future__ import annotations

from typing import Protocol


class SubmitProgress(Protocol):
    """Callbacks of a submission."""

    def step(self, text: str) -> None:
        """A step begins."""
        ...

    def transfer(self, text: str, done: int, total: int) -> None:
        """Bytes of a transfer that are done; may be called from several threads, one at a time."""
        ...

    def report(self, label: str, text: str) -> None:
        """Something happened that the user should see."""
        ...

    def hold_interrupt(self) -> None:
        """A process is about to be started that outlives this one: delay Ctrl-C until the run is followed."""
        ...


class SilentProgress:
    """A `SubmitProgress` that ignores everything."""

    def step(self, text: str) -> None:
        """Ignore a step."""

    def transfer(self, text: str, done: int, total: int) -> None:
        """Ignore a transfer."""

    def report(self, label: str, text: str) -> None:
        """Ignore a report."""

    def hold_interrupt(self) -> None:
        """Let Ctrl-C interrupt as usual."""
