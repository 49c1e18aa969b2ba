"""The last lines of a run's output, as a terminal would show them."""

from __future__ import annotations

import codecs
import re
from collections import deque

_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-~])")
"""Control sequences: ECMA-48, 5.4."""
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f\x80-\x9f]")
_LONGEST = 4096
"""Characters of a line that are kept."""


class LogTail:
    """The last lines of an output that arrives in pieces.

    Args:
        lines: how many to keep.
    """

    def __init__(self, lines: int) -> None:
        self._lines: deque[str] = deque(maxlen=lines)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._open = ""

    def add(self, content: bytes) -> None:
        """Add a piece."""
        whole, separator, rest = (self._open + self._decoder.decode(content)).rpartition("\n")
        if separator:
            self._lines.extend(map(_shown, whole.split("\n")[-(self._lines.maxlen or 1) :]))
        # A progress bar overwrites its line again and again, and never ends it.
        self._open = rest if len(rest) <= _LONGEST else rest[-_LONGEST:]

    def lines(self) -> tuple[str, ...]:
        """The lines, with the one that is not complete yet."""
        last = _shown(self._open)
        return (*self._lines, last) if last else tuple(self._lines)


def _shown(line: str) -> str:
    """What is seen of a line in the end: progress bars return to its beginning."""
    seen = _SEQUENCE.sub("", line.rstrip("\r").rpartition("\r")[2])
    return _CONTROL.sub("", seen).expandtabs(8)[:_LONGEST]
