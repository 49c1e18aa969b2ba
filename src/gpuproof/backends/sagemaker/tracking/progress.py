"""Who is told how a submission goes."""

from __future__ import annotations

from typing import Protocol


class Watch(Protocol):
    """Is told how it goes."""

    def step(self, what: str) -> None:
        """Something begins."""
        ...

    def progress(self, what: str, done: int, total: int) -> None:
        """So many of the bytes of what is sent have gone out; told in several threads, one at a time."""
        ...

    def note(self, text: str) -> None:
        """Something that a person should know."""
        ...


class Unwatched:
    """Nobody is told."""

    def step(self, what: str) -> None:
        """As `Watch`."""

    def progress(self, what: str, done: int, total: int) -> None:
        """As `Watch`."""

    def note(self, text: str) -> None:
        """As `Watch`."""
