"""Temporary folder that is removed even on SIGTERM."""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def temporary_folder(prefix: str) -> Generator[Path]:
    """Creates an empty folder and removes it at the end; on SIGTERM too, with exit code 143."""
    before = signal.signal(signal.SIGTERM, _exit)
    try:
        with tempfile.TemporaryDirectory(prefix=prefix) as folder:
            yield Path(folder)
    finally:
        signal.signal(signal.SIGTERM, before)


def _exit(number: int, _frame: object) -> None:
    raise SystemExit(128 + number)
