"""Starting a run's agent, and the lock that tells whether it lives."""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
from collections.abc import Generator
from pathlib import Path

from tarmac.agent.job import AgentJob
from tarmac.agent.paths import RunPaths
from tarmac.errors import UsageError


@contextlib.contextmanager
def held_lock(paths: RunPaths) -> Generator[int, None, None]:
    """The run's lock, held from before the run is seen: a run whose lock nobody holds counts as killed."""
    lock = os.open(paths.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield lock
    finally:
        os.close(lock)


def spawn(order: AgentJob, paths: RunPaths, agent: Path, lock: int) -> None:
    """Start the agent in its own session, so that it outlives the terminal, and hand the lock on to it.

    Raises:
        UsageError: the interpreter cannot be started.
    """
    with paths.agent_log.open("ab") as log:
        try:
            # -I: the agent must not trip over what the script's PYTHONPATH and working directory hold.
            subprocess.Popen(
                [order.python, "-I", str(agent), str(paths.root), "--lock-fd", str(lock)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(lock,),
                start_new_session=True,
                cwd=paths.root,
            )
        except OSError as error:
            raise UsageError(
                f"{order.python} cannot be started: {error.strerror}.",
                remedy="Name another interpreter, with --python.",
            ) from error
