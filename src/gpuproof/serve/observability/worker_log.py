"""The server's log in worker processes: standard error, also for what handlers print."""

from __future__ import annotations

import contextlib
import io
import os
import sys

from gpuproof.util.log import without_escapes


def print_to_log() -> None:
    """Let what the handler prints go to standard error: standard output holds the access log, one JSON object per line."""
    with contextlib.suppress(OSError):
        os.dup2(2, 1)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)


def log(text: str) -> None:
    """Write a line to the server's log, even if the handler has replaced or closed standard error."""
    try:
        sys.stderr.write(f"gpuproof serve: {without_escapes(text).rstrip()}\n")
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        # Closed or replaced by the handler.
        return
