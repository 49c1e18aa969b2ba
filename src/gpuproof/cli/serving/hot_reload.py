"""`gpuproof serve --dev`: has the server load its model again whenever a file of it changes."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path

from gpuproof.util.file_watch import FileWatch

_LOOK_S = 0.25
_SETTLE_S = 0.1
_MOST_FOLDERS = 500
_NOT_WATCHED = {"__pycache__", ".git", ".venv", "node_modules"}

Stamp = dict[str, tuple[int, int]]


def reload_on_change(process: subprocess.Popen[bytes], places: Iterable[Path]) -> None:
    """Send SIGHUP to the server after each change of its code, until it ends.

    Args:
        places: files of the model, and folders, of which whatever lies below them counts.
    """
    places = list(places)
    before = _stamp(places)
    while process.poll() is None:
        # A file is often replaced rather than written: its folder tells.
        beside = {place.parent for place in places if not place.is_dir()}
        with FileWatch([*folders(places), *sorted(beside)]) as changes:
            while process.poll() is None:
                changes.wait(_LOOK_S)
                now = _stamp(places)
                if now == before:
                    continue
                # An editor writes in several steps: what counts is where they end.
                time.sleep(_SETTLE_S)
                before = _stamp(places)
                if process.poll() is None:
                    process.send_signal(signal.SIGHUP)
                break


def folders(places: Iterable[Path]) -> list[Path]:
    """All folders below some, themselves included, without those that hold no code."""
    found: list[Path] = []
    waiting = [place for place in places if place.is_dir()]
    while waiting and len(found) < _MOST_FOLDERS:
        folder = waiting.pop(0)
        found.append(folder)
        waiting += [
            path
            for path in _inside(folder)
            if path.is_dir() and not path.is_symlink() and path.name not in _NOT_WATCHED
        ]
    return found


def _stamp(places: Iterable[Path]) -> Stamp:
    """Time and size of every file that may matter."""
    places = list(places)
    files = [place for place in places if not place.is_dir()]
    stamps: Stamp = {}
    for path in (*files, *(path for folder in folders(places) for path in _inside(folder))):
        try:
            status = path.stat()
        except OSError:
            continue
        if not path.is_dir():
            stamps[str(path)] = (status.st_mtime_ns, status.st_size)
    return stamps


def _inside(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        # Deleted meanwhile, or not this user's to read.
        return []
