"""Runs on this machine that have ended, and SSH keys."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpuproof.agent.verdict import Expectation, judge
from gpuproof.backends.local.run import LocalRun
from gpuproof.backends.local.run_folders import RunFolders
from gpuproof.util.atomic import write_json
from support.gpu_timelines import JOB, gpu, watched

ONE = Expectation(1, "A10G", "instance_type: ml.g5.xlarge", required=True)
PROVENANCE = {
    "gpuproof": "0.1.0",
    "code": {"sha256": "ab" * 32, "files": 2, "bytes": 120},
    "selection": {"entry_point": "train.py", "include": [], "respect_gitignore": True, "exclude": []},
    "git": {"commit": "cd" * 20, "dirty": False},
    "inputs": {"training": {"uri": "s3://bucket/data/"}},
}


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[..., LocalRun]:
    """Write the folder of a run that completed; the values are those of its `run.json`."""

    def make(run_id: str = "train-1", **values: Any) -> LocalRun:
        store = RunFolders(tmp_path / "state" / "runs")
        paths = store.paths(run_id)
        paths.logs.mkdir(parents=True)
        verdict = judge(ONE, watched(60, gpu(90, mib=8000, pids={JOB: 7900}, since=5)))
        write_json(paths.verdict, verdict.to_json())
        document = {
            "version": 1,
            "id": run_id,
            "job_name": "train",
            "kind": "training",
            "backend": "local",
            "status": "Completed",
            "created": 1_790_000_000.25,
            "script_started": 1_790_000_001.5,
            "ended": 1_790_000_061.75,
            "exit_code": 0,
            "source_dir": "/home/me/secret-project",
            "command": ["python", "train.py", "--token", "s3cret"],
            "verdict": verdict.outcome,
            "frameworks": {"torch": "2.9.0"},
            "provenance": PROVENANCE,
            **values,
        }
        write_json(paths.run, document)
        return LocalRun(store, run_id)

    return make


@pytest.fixture
def make_key(tmp_path: Path) -> Callable[[str], Path]:
    """Create an SSH key without a passphrase; its public half is beside it."""
    if shutil.which("ssh-keygen") is None and "CI" not in os.environ:
        pytest.skip("ssh-keygen is not installed (Debian package openssh-client)")

    def make(name: str = "key") -> Path:
        path = tmp_path / name
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", f"{name}@example.com", "-f", str(path)]
        subprocess.run(words, check=True, capture_output=True)
        return path

    return make
