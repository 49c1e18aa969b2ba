"""`tarmac serve --dev`: has the server load its model again whenever a file of it changes."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path

from tarmac.places.local.changes import Changes

_LOOK_S = 0.25
_SETTLE_S = 0.1
_MOST_FOLDERS = 500
_NOT_WATCHED = {"__pycache__", ".git", ".venv", "node_modules"}

Stamp = dict[str, tuple[int, int]]


def reload_on_change(process: subprocess.Popen[bytes], places: Iterable[Path]) -> None:
    """Send SIGHUP to the server after each change of its code, until it ends.

    Args:
        places: files and folders of the model; whatever lies below them counts.
    """
    roots = [place if place.is_dir() else place.parent for place in places]
    before = _stamp(roots)
    while process.poll() is None:
        with Changes(folders(roots)) as changes:
            while process.poll() is None:
                changes.wait(_LOOK_S)
                now = _stamp(roots)
                if now == before:
                    continue
                # An editor writes in several steps: what counts is where they end.
                time.sleep(_SETTLE_S)
                before = _stamp(roots)
                if process.poll() is None:
                    process.send_signal(signal.SIGHUP)
                break


def folders(roots: Iterable[Path]) -> list[Path]:
    """All folders below some, themselves included, without those that hold no code."""
    found: list[Path] = []
    waiting = [root for root in roots if root.is_dir()]
    while waiting and len(found) < _MOST_FOLDERS:
        folder = waiting.pop(0)
        found.append(folder)
        waiting += sorted(
            path
            for path in folder.iterdir()
            if path.is_dir() and not path.is_symlink() and path.name not in _NOT_WATCHED
        )
    return found


def _stamp(roots: Iterable[Path]) -> Stamp:
    """Time and size of every file that may matter."""
    stamps: Stamp = {}
    for folder in folders(roots):
        for path in folder.iterdir():
            try:
                status = path.stat()
            except OSError:
                continue
            if not path.is_dir():
                stamps[str(path)] = (status.st_mtime_ns, status.st_size)
    return stamps
