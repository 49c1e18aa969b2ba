"""A temporary folder that is gone whichever way a verb ends."""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def scratch_folder(prefix: str) -> Generator[Path]:
    """An empty folder; SIGTERM unwinds to its removal as Ctrl-C does, and leaves with 143."""
    before = signal.signal(signal.SIGTERM, _leave)
    try:
        with tempfile.TemporaryDirectory(prefix=prefix) as folder:
            yield Path(folder)
    finally:
        signal.signal(signal.SIGTERM, before)


def _leave(number: int, _frame: object) -> None:
    raise SystemExit(128 + number)
