"""`gpuproof serve --dev`: reloads the model when one of its files changes."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path

from gpuproof.util.file_watch import FileWatch

_POLL_S = 0.25
_SETTLE_S = 0.1
_MAX_FOLDERS = 500
_IGNORED_FOLDERS = {"__pycache__", ".git", ".venv", "node_modules"}

Stamp = dict[str, tuple[int, int]]


def reload_on_change(process: subprocess.Popen[bytes], paths: Iterable[Path]) -> None:
    """Sends SIGHUP to the server after each change of its code, until it ends.

    Args:
        paths: files of the model, and folders, which are watched recursively.
    """
    paths = list(paths)
    before = _stamp(paths)
    while process.poll() is None:
        # Editors often replace a file instead of writing it, so watch its folder too.
        file_folders = {path.parent for path in paths if not path.is_dir()}
        with FileWatch([*folders(paths), *sorted(file_folders)]) as changes:
            while process.poll() is None:
                changes.wait(_POLL_S)
                now = _stamp(paths)
                if now == before:
                    continue
                # Editors write in several steps: wait for the last one.
                time.sleep(_SETTLE_S)
                before = _stamp(paths)
                if process.poll() is None:
                    process.send_signal(signal.SIGHUP)
                break


def folders(paths: Iterable[Path]) -> list[Path]:
    """The given folders and all folders below them, except those without code."""
    found: list[Path] = []
    waiting = [path for path in paths if path.is_dir()]
    while waiting and len(found) < _MAX_FOLDERS:
        folder = waiting.pop(0)
        found.append(folder)
        waiting += [
            path
            for path in _inside(folder)
            if path.is_dir() and not path.is_symlink() and path.name not in _IGNORED_FOLDERS
        ]
    return found


def _stamp(paths: Iterable[Path]) -> Stamp:
    """Modification time and size of every watched file."""
    paths = list(paths)
    files = [path for path in paths if not path.is_dir()]
    stamps: Stamp = {}
    for path in (*files, *(path for folder in folders(paths) for path in _inside(folder))):
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
        # Deleted in the meantime, or not readable.
        return []
