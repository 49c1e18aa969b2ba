"""What the library says to the person who reads the log: a line on standard error, each only once."""

from __future__ import annotations

import sys

_said: set[str] = set()


def say(text: str) -> None:
    """One line, at once."""
    print(f"gpuproof: {text}", file=sys.stderr, flush=True)


def say_once(text: str) -> None:
    """One line, the first time only."""
    if text not in _said:
        _said.add(text)
        say(text)
