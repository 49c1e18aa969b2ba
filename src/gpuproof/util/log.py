"""Messages of the runtime library, as lines on standard error that begin with `gpuproof:`."""

from __future__ import annotations

import re
import sys
from typing import IO, Any

_logged: set[str] = set()


_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")


def without_escapes(text: str) -> str:
    """The text without the escape codes of terminals: colours, and links."""
    return _ESCAPES.sub("", text) if "\x1b" in text else text


def print_at_once(
    values: tuple[object, ...],
    sep: str | None = " ",
    end: str | None = "\n",
    file: IO[Any] | None = None,
    flush: bool = False,
) -> None:
    """`print` with a single write, so that the lines of several processes do not mix where output is not buffered."""
    text = (" " if sep is None else sep).join(map(str, values)) + ("\n" if end is None else end)
    print(text, end="", file=file, flush=flush)


def log(text: str) -> None:
    """Print a line now."""
    print(f"gpuproof: {text}", file=sys.stderr, flush=True)


def log_once(text: str) -> None:
    """Print a line unless this process has printed it before."""
    if text not in _logged:
        _logged.add(text)
        log(text)
