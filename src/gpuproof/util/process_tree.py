"""Finds the descendants of a process and kills them."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections import defaultdict
from collections.abc import Collection

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """Make this process the parent of every descendant whose own parent ends (Linux; no effect on other systems)."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent() -> None:
    """Have the kernel kill this process when the thread that forked it ends (Linux; no effect on other systems)."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def descendants(pid: int) -> list[int]:
    """Ids of all descendants of a process, nearest first; empty without `/proc`."""
    children = _children_by_parent()
    found: list[int] = []
    queue = [pid]
    while queue:
        below = children.get(queue.pop(0), [])
        found += below
        queue += below
    return found


def children(pid: int) -> list[int]:
    """Ids of the children of a process; empty without `/proc`."""
    return _children_by_parent().get(pid, [])


def end_descendants(spared: Collection[int] = ()) -> None:
    """Kill and collect every descendant of this process, including those that are forked meanwhile.

    Call `adopt_orphans` first to reach processes that outlive their parents.

    Args:
        spared: children that are left alone, with their own descendants.
    """
    if spared:
        _end_others(spared)
        return
    while True:
        for pid in descendants(os.getpid()):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _end_others(spared: Collection[int]) -> None:
    kept = {*spared, *(pid for child in spared for pid in descendants(child))}
    while others := [pid for pid in descendants(os.getpid()) if pid not in kept]:
        for pid in others:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        for pid in others:
            with contextlib.suppress(
                ChildProcessError
            ):  # its parent has just been killed: it is a child by the next time
                os.waitpid(pid, 0)
        kept.update(pid for child in spared for pid in descendants(child))


def die_by_signal(number: int) -> None:
    """End this process by the signal that has killed its child, without a second core dump."""
    import resource  # only for a failure

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if number not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def collect_ended() -> None:
    """Collect children that have ended, so that none stays a zombie; process 1 is also the parent of all orphans."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _children_by_parent() -> dict[int, list[int]]:
    children: dict[int, list[int]] = defaultdict(list)
    try:
        names = os.listdir("/proc")  # noqa: PTH208 - names, not paths: hundreds of them
    except OSError:
        return children
    for name in names:
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123 - thousands of times a run
                stat = file.read()
        except OSError:
            continue
        # The command is in parentheses and may contain anything, even parentheses: proc_pid_stat(5).
        parent = int(stat[stat.rindex(b")") + 2 :].split(None, 2)[1])
        children[parent].append(int(name))
    return children


def _prctl(option: int, value: int) -> None:
    if not sys.platform.startswith("linux"):
        return
    # Imported here: ctypes costs the agent's start more than the rest of this module.
    import ctypes

    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
