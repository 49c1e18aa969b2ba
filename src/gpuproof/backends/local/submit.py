"""Starting a run's agent, and the lock that tells whether it lives."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

from gpuproof.agent.paths import RunPaths


@contextlib.contextmanager
def held_lock(paths: RunPaths) -> Generator[int, None, None]:
    """The run's lock, held from before the run is seen: a run whose lock nobody holds counts as killed."""
    lock = os.open(paths.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield lock
    finally:
        os.close(lock)


def spawn(paths: RunPaths, agent: Path, lock: int, python: str = sys.executable) -> None:
    """Start the agent in its own session, so that it outlives the terminal, and hand the lock on to it.

    Args:
        agent: the agent's file.
        lock: descriptor of the run's lock, held.
        python: what runs the agent. Not the script's interpreter: that one may be of any age, and of any state.
    """
    _keep(agent, paths.agent)
    with paths.agent_log.open("ab") as log:
        # -I: the agent must not trip over what PYTHONPATH and the working directory hold.
        subprocess.Popen(
            [python, "-I", str(paths.agent), str(paths.root), "--lock-fd", str(lock)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=(lock,),
            start_new_session=True,
            cwd=paths.root,
        )


def _keep(agent: Path, place: Path) -> None:
    """The agent's file in the run's folder: the cache may be emptied while the run goes on."""
    try:
        os.link(agent, place)
    except OSError:
        # Another file system, or one without hard links.
        shutil.copyfile(agent, place)
