"""Epochs of a run by its log, for runs whose training loop was not recognized."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence

_EPOCH = re.compile(
    rb"^[^\n]{0,80}?\bepoch(?: *[:=#]?|\[| \[) *(\d{1,6})(?: *(?:/|of) *\d+)?\b", re.IGNORECASE | re.MULTILINE
)
"""`Epoch 3/10`, `Epoch 3:`, `epoch: 3`, `Epoch [3/10]`, near the beginning of a line."""


class EpochFinder:
    """Finds the first line of each epoch in an output that arrives in pieces."""

    def __init__(self) -> None:
        self.positions: dict[int, int] = {}
        """By epoch, the byte of the output at which its first line begins."""
        self._length = 0
        self._rest = b""

    def add(self, content: bytes) -> None:
        """Add a piece."""
        # A progress bar returns to the beginning of its line.
        text = (self._rest + content).replace(b"\r", b"\n")
        whole, newline, rest = text.rpartition(b"\n")
        lines = whole + newline
        for match in _EPOCH.finditer(lines):
            self.positions.setdefault(int(match[1]), self._length + match.start())
        self._length += len(lines)
        self._rest = rest[-(1 << 16) :]
        self._length += len(rest) - len(self._rest)


def epoch_times(
    positions: dict[int, int], notes: Sequence[tuple[float, int]], started: float
) -> list[tuple[float, str]]:
    """When each epoch began, in seconds since the start, and its name.

    Args:
        positions: of an `EpochFinder`.
        notes: when the output had which length: seconds since the epoch, and bytes.
        started: when the script started.
    """
    lengths = [length for _, length in notes]
    found: list[tuple[float, str]] = []
    for epoch, position in positions.items():
        note = bisect_right(lengths, position) - 1
        if note >= 0:
            found.append((max(notes[note][0] - started, 0.0), f"epoch {epoch}"))
    return sorted(found)
