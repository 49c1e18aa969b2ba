"""What GPUproof itself says beside the script's output: on standard error, so that the output stays clean."""

from __future__ import annotations

import shutil
import sys
from typing import BinaryIO, TextIO

from gpuproof.settings import colour, interactive
from gpuproof.terminal.style import Style


class Console:
    """Lines with a label, and one progress line at the bottom that makes way for everything else.

    Args:
        own: where GPUproof's words go.
        output: where the script's output goes.
    """

    def __init__(self, own: TextIO | None = None, output: BinaryIO | None = None) -> None:
        self._own = own or sys.stderr
        self._output = output or sys.stdout.buffer
        self._progress = ""
        self._drawn = False
        self._at_line_start = True
        self.live = interactive(self._own)
        """Whether somebody watches, so that a progress line is worth drawing."""
        self.colour = colour(self._own)
        self.width = min(100, shutil.get_terminal_size((100, 0)).columns)
        """Characters a line, 100 at most: longer lines are hard to read."""
        self.unicode = _takes_unicode(self._own)
        """Whether block characters can be written."""

    def say(self, text: str = "") -> None:
        """A line of GPUproof's own."""
        self._clear()
        self._break_line()
        print(text, file=self._own, flush=True)

    def label(self, label: str, text: str) -> None:
        """A line with a label before it; further lines of the text are indented as far."""
        for line in Style(self.colour).labelled(label, text.splitlines()):
            self.say(line)

    def write(self, content: bytes) -> None:
        """Some of the script's output, byte for byte."""
        self._clear()
        self._output.write(content)
        self._output.flush()
        self._at_line_start = content.endswith(b"\n")
        if self.live and self._at_line_start:
            self._draw()

    def progress(self, text: str) -> None:
        """Replace the progress line; nothing where nobody watches."""
        if not self.live:
            return
        self._clear()
        self._progress = text
        if self._at_line_start:
            self._draw()

    def end_progress(self) -> None:
        """Take the progress line away for good."""
        self._clear()
        self._progress = ""

    def _draw(self) -> None:
        if self._progress:
            columns = shutil.get_terminal_size().columns
            print(self._progress[: columns - 1], end="", file=self._own, flush=True)
            self._drawn = True

    def _clear(self) -> None:
        # Only what was drawn: a line of the script's that has no end yet must stay.
        if self._drawn:
            print("\r\x1b[K", end="", file=self._own, flush=True)
            self._drawn = False

    def _break_line(self) -> None:
        # On a terminal our line must not hang on to a line of the script's that has no end yet. The newline is ours:
        # into a pipe or a file goes what the script said, and nothing else.
        if not self._at_line_start and self.live:
            print(file=self._own)
            self._at_line_start = True


def _takes_unicode(stream: TextIO) -> bool:
    try:
        "▁█…".encode(getattr(stream, "encoding", None) or "ascii")
    except (LookupError, UnicodeEncodeError):
        return False
    return True
