"""The console: GPUproof's own lines go to standard error, the script's output to standard output."""

from __future__ import annotations

import shutil
import sys
from typing import BinaryIO, TextIO

from gpuproof.settings import colour, interactive
from gpuproof.terminal.style import Style


class Console:
    """Prints lines with labels, and a progress line that stays at the bottom.

    Args:
        own: stream of GPUproof's own lines; standard error if None.
        output: stream of the script's output; standard output if None.
    """

    def __init__(self, own: TextIO | None = None, output: BinaryIO | None = None) -> None:
        self._own = own or sys.stderr
        self._output = output or sys.stdout.buffer
        self._progress = ""
        self._drawn = False
        self._at_line_start = True
        self.live = interactive(self._own)
        """Whether the stream is an interactive terminal that shows a progress line."""
        self.colour = colour(self._own)
        self.width = min(100, shutil.get_terminal_size((100, 0)).columns)
        """Characters per line, 100 at most: longer lines are hard to read."""
        self.unicode = takes_unicode(self._own)
        """Whether block characters can be written."""

    def print(self, text: str = "") -> None:
        """Prints a line of GPUproof."""
        self._clear()
        self._break_line()
        print(text, file=self._own, flush=True)

    def label(self, label: str, text: str) -> None:
        """Prints text with a label before its first line; the other lines are indented as far."""
        for line in Style(self.colour).labelled(label, text.splitlines()):
            self.print(line)

    def write(self, content: bytes) -> None:
        """Writes output of the script, byte for byte."""
        self._clear()
        self._output.write(content)
        self._output.flush()
        self._at_line_start = content.endswith(b"\n")
        if self.live and self._at_line_start:
            self._draw()

    def progress(self, text: str) -> None:
        """Replaces the progress line; does nothing unless the stream is an interactive terminal."""
        if not self.live:
            return
        self._clear()
        self._progress = text
        if self._at_line_start:
            self._draw()

    def end_progress(self) -> None:
        """Removes the progress line."""
        self._clear()
        self._progress = ""

    def _draw(self) -> None:
        if self._progress:
            columns = shutil.get_terminal_size().columns
            print(self._progress[: columns - 1], end="", file=self._own, flush=True)
            self._drawn = True

    def _clear(self) -> None:
        # Only what was drawn: an unfinished line of the script must stay.
        if self._drawn:
            print("\r\x1b[K", end="", file=self._own, flush=True)
            self._drawn = False

    def _break_line(self) -> None:
        # On a terminal, GPUproof's line must not continue an unfinished line of the script. A pipe or a file gets only
        # the script's own output, without this newline.
        if not self._at_line_start and self.live:
            print(file=self._own)
            self._at_line_start = True


def takes_unicode(stream: TextIO) -> bool:
    """Whether block characters can be written to a stream."""
    try:
        "▁█…".encode(getattr(stream, "encoding", None) or "ascii")
    except (LookupError, UnicodeEncodeError):
        return False
    return True
