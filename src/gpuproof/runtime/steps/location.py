"""Finds the script's own lines among the frames of libraries, and counts what happens at each."""

from __future__ import annotations

import os
import sysconfig
from collections.abc import Mapping
from types import CodeType, FrameType
from typing import Any

_OWN = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # noqa: PTH100, PTH120
_INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
_MOST_LINES = 64

Place = tuple[str, int]
"""File and line."""


class Locations:
    """Lines of the script by the phase that they explain.

    Args:
        folder: the script's; paths below it are relative to it.
    """

    def __init__(self, folder: str) -> None:
        self._folder = os.path.join(folder, "")  # noqa: PTH118
        self._found: dict[str, dict[tuple[str, int, str], _Line]] = {}

    def add(
        self,
        phase: str,
        what: str,
        where: FrameType | Place | None,
        settings: Mapping[str, Any],
        seconds: float,
        count: int,
    ) -> None:
        place = where if isinstance(where, tuple) else script_place(where)
        if place is None:
            return
        lines = self._found.setdefault(phase, {})
        key = (*place, what)
        line = lines.get(key)
        if line is None:
            if len(lines) >= _MOST_LINES:
                return
            line = lines[key] = _Line()
        line.count += count
        line.seconds += seconds
        if settings:
            line.settings = dict(settings)

    def to_json(self) -> dict[str, Any]:
        """The line of each phase that took longest."""
        found: dict[str, Any] = {}
        for phase, lines in self._found.items():
            (path, number, what), line = max(lines.items(), key=lambda item: (item[1].seconds, item[1].count))
            found[phase] = {
                "path": self._relative(path),
                "line": number,
                "what": what,
                "count": line.count,
                "seconds": round(line.seconds, 6),
                "settings": line.settings,
            }
        return found

    def _relative(self, path: str) -> str:
        path = os.path.abspath(path)  # noqa: PTH100
        return path[len(self._folder) :] if path.startswith(self._folder) else path


class _Line:
    def __init__(self) -> None:
        self.count = 0
        self.seconds = 0.0
        self.settings: dict[str, Any] = {}


def script_place(frame: FrameType | None) -> Place | None:
    """The innermost line from here outwards that is no library's; `None` if all are."""
    while frame is not None and not is_script(frame.f_code):
        frame = frame.f_back
    return None if frame is None else (frame.f_code.co_filename, frame.f_lineno)


def add_library(file: str | None) -> None:
    """Take the files of a package, of which this is one, for those of a library."""
    global _libraries
    folder = os.path.dirname(file) if file else ""  # noqa: PTH120
    if folder and os.path.join(folder, "") not in _libraries:  # noqa: PTH118
        _libraries = (*_libraries, os.path.join(folder, ""))  # noqa: PTH118


def is_script(code: CodeType) -> bool:
    """Whether code is no library's."""
    known = _known.get(code)
    if known is None:
        path = code.co_filename
        known = not path.startswith(("<", *_libraries)) and not any(part in path for part in _INSTALLED)
        if len(_known) < 10_000:
            _known[code] = known
    return known


_known: dict[CodeType, bool] = {}
_libraries: tuple[str, ...] = (
    os.path.join(sysconfig.get_path("stdlib"), ""),  # noqa: PTH118
    os.path.join(_OWN, ""),  # noqa: PTH118
)
