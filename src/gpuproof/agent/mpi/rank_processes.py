"""Finds the processes that run the script on one host."""

from __future__ import annotations

import contextlib
import os
import signal

from gpuproof.agent.ranks.watched import is_watcher
from gpuproof.util.process_tree import children


def signal_ranks(pids: list[int], number: int = signal.SIGTERM) -> None:
    """Send a signal to ranks.

    Args:
        pids: children of mpirun or its daemon: the ranks, or the processes that watch them and ignore signals.
    """
    for pid in pids:
        for target in (children(pid) if is_watcher(pid) else []) or [pid]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(target, number)
