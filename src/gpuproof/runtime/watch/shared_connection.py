"""The connection of this process to the monitor process, which all uses of `rt.watch()` share, and notes on what did not work."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Generator

from gpuproof.runtime.ranks import local_rank
from gpuproof.runtime.watch.connection import Connection, WatchOptions
from gpuproof.util.monitor_client import MonitorLost
from gpuproof.util.watched import VARIABLE, watched_by_process, watcher_name


class _Process:
    """What is known of this process."""

    def __init__(self, is_fork: bool = False) -> None:
        self.lock = threading.Lock()
        self.connection: Connection | None = None
        self.watches = False
        """Whether this process is watched through the connection, not only measured."""
        self.has_noted = False
        self.is_fork = is_fork


_process = _Process()


def connect(options: WatchOptions) -> Connection | None:
    """The connection to watch this process; `None`, after a note, if something else does, or without a monitor process."""
    with _process.lock:
        if _process.watches:
            return _process.connection
        if is_worker():
            return None
        watcher = watcher_name(os.environ)
        if watcher is not None:
            note(f"{watcher} watches this process already, so this rt.watch() does nothing.", once=True)
            return None
        if _connection(options) is not None:
            _process.watches = True
            os.environ[VARIABLE] = watched_by_process(os.getpid())
        return _process.connection


def connect_to_measure() -> Connection | None:
    """The connection to read utilization through, also if something else watches this process."""
    with _process.lock:
        return _connection(WatchOptions())


def current_connection() -> Connection | None:
    """The connection, if there is one."""
    return _process.connection


def is_worker() -> bool:
    """Whether this process is a part of another one: a worker of `multiprocessing` or of a data loader, or a fork."""
    multiprocessing = sys.modules.get("multiprocessing.process")
    if multiprocessing is None:
        return _process.is_fork
    # While a spawned process imports the script, it does not know its parent yet.
    is_starting = getattr(multiprocessing.current_process(), "_inheriting", False)
    return bool(is_starting or multiprocessing.parent_process() is not None or _process.is_fork)


def is_interactive() -> bool:
    """Whether this is a notebook's kernel or an interactive interpreter."""
    return hasattr(sys, "ps1") or bool(sys.flags.interactive)


@contextlib.contextmanager
def monitor_may_be_lost() -> Generator[None, None, None]:
    """Note that the monitor process has ended, instead of an exception in the script."""
    try:
        yield
    except MonitorLost as error:
        _note_lost(error)


def note(text: str, once: bool = False) -> None:
    """Print a line for the user, on the first rank of a host.

    Args:
        once: only if no other such line was printed before.
    """
    if (once and _process.has_noted) or local_rank() not in (None, 0):
        return
    _process.has_noted = _process.has_noted or once
    print_text(f"gpuproof: {text}")


def print_text(text: str) -> None:
    """Print to standard error, if it can show the text."""
    stream = sys.stderr
    if stream is None:  # pyright: ignore[reportUnnecessaryComparison] - pythonw and some scripts have none
        return
    # It may be closed, or of an encoding without these characters.
    with contextlib.suppress(Exception):
        print(text, file=stream, flush=True)


def _connection(options: WatchOptions) -> Connection | None:
    if _process.connection is None:
        try:
            _process.connection = Connection(options)
        except MonitorLost as error:
            _note_lost(error)
    return _process.connection


def _note_lost(error: MonitorLost) -> None:
    note(f"The GPUs are not measured: {error}. The script is not affected.", once=True)


def _forget() -> None:
    """In a forked child: the parent's connection is not the child's."""
    global _process
    connection = _process.connection
    if connection is not None:
        connection.close()
    _process = _Process(is_fork=_process.watches or _process.is_fork)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
