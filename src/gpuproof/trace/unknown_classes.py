"""The classes of a folder that is not on this machine: a script that needs them cannot be traced."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from gpuproof.trace.failures import CannotTrace


def missing_folder(folder: Any, what: str, remedy: str) -> CannotTrace:
    """The error of a script that needs to know what is in such a folder.

    Args:
        folder: the script's name of it.
        what: what it needs, after "it is not known".
    """
    return CannotTrace(
        "missing-data", f"The folder {folder} is not here, so that it is not known {what}.", remedy
    )


class UnknownClasses(Sequence[str]):
    """Takes the place of names of classes, and of their numbers: each use is an error.

    Args:
        folder: the script's name of it.
        remedy: what to do.
    """

    def __init__(self, folder: Any, remedy: str) -> None:
        self._folder, self._remedy = folder, remedy

    def __len__(self) -> int:
        """Not known."""
        raise self._error()

    def __getitem__(self, index: Any) -> Any:
        """Not known."""
        raise self._error()

    def __iter__(self) -> Iterator[str]:
        """Not known."""
        raise self._error()

    def __contains__(self, value: object) -> bool:
        """Not known."""
        raise self._error()

    def items(self) -> Any:
        """Not known."""
        raise self._error()

    keys = values = get = items

    def _error(self) -> CannotTrace:
        return missing_folder(self._folder, "which classes it has", self._remedy)
