"""Runs on this machine, made by hand and for real."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gpuproof.agent.paths import RunPaths
from gpuproof.backends.local.run_folders import RunFolders
from gpuproof.util.atomic import write_json


class Runs:
    """A store with runs whose folders the test writes itself."""

    def __init__(self, store: RunFolders) -> None:
        self.store = store
        self._locks: dict[str, int] = {}
        self._created = time.time() - 10_000

    def make(self, run_id: str, **values: Any) -> RunPaths:
        """A run that completed, unless the values say otherwise; each is newer than the one before."""
        self._created += 1
        paths = self.store.paths(run_id)
        paths.logs.mkdir(parents=True)
        document = {
            "version": 1,
            "id": run_id,
            "job_name": run_id.partition("-")[0],
            "kind": "training",
            "backend": "local",
            "status": "Completed",
            "created": self._created,
            "source_dir": "/project",
            **values,
        }
        write_json(paths.run, document)
        return paths

    def make_alive(self, run_id: str, **values: Any) -> RunPaths:
        """Make a run that is alive: its lock is held until it is released."""
        paths = self.make(run_id, **{"status": "InProgress", **values})
        lock = os.open(paths.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
        fcntl.flock(lock, fcntl.LOCK_EX)
        self._locks[run_id] = lock
        return paths

    def release(self, run_id: str) -> None:
        """What happens when the agent is killed."""
        os.close(self._locks.pop(run_id))

    def end(self) -> None:
        for run_id in list(self._locks):
            self.release(run_id)


@pytest.fixture
def store(tmp_path: Path) -> RunFolders:
    return RunFolders(tmp_path / "runs")


@pytest.fixture
def runs(store: RunFolders) -> Iterator[Runs]:
    made = Runs(store)
    yield made
    made.end()


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str], Path]:
    """Write the project's train.py."""

    def write(text: str) -> Path:
        path = tmp_path / "project" / "train.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return path

    return write
