"""Waits for changes in folders through inotify, without polling.

Source: inotify(7). Without inotify (macOS), `wait` returns every 0.2 s.
"""

from __future__ import annotations

import ctypes
import os
import select
import sys
import time
from collections.abc import Sequence
from pathlib import Path

_IN_MODIFY = 0x2
_IN_CLOSE_WRITE = 0x8
_IN_MOVED_FROM = 0x40
_IN_MOVED_TO = 0x80
_IN_CREATE = 0x100
_IN_DELETE = 0x200
_IN_DELETE_SELF = 0x400
_IN_MOVE_SELF = 0x800
_EVENTS = (
    _IN_MODIFY
    | _IN_CLOSE_WRITE
    | _IN_MOVED_FROM
    | _IN_MOVED_TO
    | _IN_CREATE
    | _IN_DELETE
    | _IN_DELETE_SELF
    | _IN_MOVE_SELF
)
_IN_CLOEXEC = 0o2000000
_POLL_SECONDS = 0.2


class FileWatch:
    """Waits until files in some folders are created, written, replaced, closed or removed.

    Args:
        folders: the folders to watch; their subfolders are not watched.
    """

    def __init__(self, folders: Sequence[Path]) -> None:
        self._descriptor = _watch(folders) if sys.platform.startswith("linux") else None

    def __enter__(self) -> FileWatch:
        return self

    def __exit__(self, *_: object) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)

    @property
    def files(self) -> list[int]:
        """File descriptors that become readable with a change, for `select`; none without inotify."""
        return [] if self._descriptor is None else [self._descriptor]

    @property
    def timeout(self) -> float | None:
        """How long to wait for `files` at most, in seconds; `None` is for ever."""
        return _POLL_SECONDS if self._descriptor is None else None

    def clear(self) -> None:
        """Discard the changes so far."""
        if self._descriptor is not None and select.select([self._descriptor], [], [], 0)[0]:
            os.read(self._descriptor, 1 << 16)

    def wait(self, seconds: float | None = None) -> bool:
        """Block until something has changed since the last call, or until the timeout in seconds.

        Returns:
            Whether a change was seen; always False without inotify.
        """
        if self._descriptor is None:
            time.sleep(_POLL_SECONDS if seconds is None else min(_POLL_SECONDS, seconds))
            return False
        ready, _, _ = select.select([self._descriptor], [], [], seconds)
        if ready:
            os.read(self._descriptor, 1 << 16)
        return bool(ready)


def _watch(folders: Sequence[Path]) -> int | None:
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = libc.inotify_init1(_IN_CLOEXEC)
    if descriptor < 0:
        # The user's limit of inotify instances is reached: fs.inotify.max_user_instances.
        return None
    for folder in folders:
        if libc.inotify_add_watch(descriptor, os.fsencode(folder), _EVENTS) < 0:
            os.close(descriptor)
            return None
    return descriptor
