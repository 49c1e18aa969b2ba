"""Messages of the runtime library, as lines on standard error that begin with `gpuproof:`."""

from __future__ import annotations

import sys

_logged: set[str] = set()


def log(text: str) -> None:
    """Print a line now."""
    print(f"gpuproof: {text}", file=sys.stderr, flush=True)


def log_once(text: str) -> None:
    """Print a line unless this process has printed it before."""
    if text not in _logged:
        _logged.add(text)
        log(text)
