"""Which program judges the GPUs of this process already, so that no second one does."""

from __future__ import annotations

import os
from collections.abc import Mapping

VARIABLE = "GPUPROOF_WATCHED_BY"
"""Variable that a program sets for what it watches, and all descendants inherit."""
RUN, WATCH = "gpuproof run", "gpuproof watch"
_RUNTIME = "rt.watch:"


def watched_by_process(pid: int) -> str:
    """The variable's value for the descendants of a process that calls `rt.watch()`."""
    return f"{_RUNTIME}{pid}"


def watcher_name(environment: Mapping[str, str], pid: int | None = None) -> str | None:
    """What watches a process with these variables, for a message; `None` if nothing does.

    Args:
        pid: of the process; its own value, from before it replaced its program by `exec`, does not count.
    """
    value = environment.get(VARIABLE)
    if not value or value == watched_by_process(os.getpid() if pid is None else pid):
        return None
    return f"rt.watch() of process {value[len(_RUNTIME) :]}" if value.startswith(_RUNTIME) else value
