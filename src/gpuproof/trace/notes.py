"""Assumptions and prevented side effects, with the line of the user's code that caused them."""

from __future__ import annotations

import inspect
import os
import sysconfig
from pathlib import Path
from types import FrameType

from gpuproof.trace.document import Note

_OURS = f"{Path(__file__).resolve().parents[1]}{os.sep}"
_NOT_USERS = tuple(
    {_OURS, *(path + os.sep for name, path in sysconfig.get_paths().items() if "lib" in name)},
)
_MAX_SITES = 50

PREVENTED = ("save", "write", "upload")
"""Codes of notes about side effects; all others are assumptions."""


class Notes:
    """Notes in the order of their first occurrence, each site once."""

    def __init__(self) -> None:
        self._notes: dict[tuple[str, str, str | None, int | None], int] = {}

    def add(self, code: str, message: str) -> None:
        """Note something about the line of the user's code that runs now."""
        file, line = user_line()
        key = (code, message, file, line)
        if key in self._notes:
            self._notes[key] += 1
        elif len(self._notes) < _MAX_SITES:
            self._notes[key] = 1

    def list(self) -> list[Note]:
        """All notes."""
        return [Note(*key, count=count) for key, count in self._notes.items()]


def is_users(file: str) -> bool:
    """Whether a file is the user's own, not that of Python, of a package or of GPUproof."""
    return not file.startswith(("<", *_NOT_USERS)) and f"{os.sep}site-packages{os.sep}" not in file


def user_line(frame: FrameType | None = None) -> tuple[str | None, int | None]:
    """File and line of the innermost frame that is in the user's code."""
    found = frame if frame is not None else inspect.currentframe()
    while found is not None:
        if is_users(found.f_code.co_filename):
            return found.f_code.co_filename, found.f_lineno
        found = found.f_back
    return None, None
