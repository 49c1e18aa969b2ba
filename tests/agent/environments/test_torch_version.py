"""The PyTorch version that a job's script will import."""

from __future__ import annotations

import sys
import venv
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import pytest

from gpuproof.agent.environments.environment import torch_version
from gpuproof.agent.job import AgentJob

JOB = AgentJob(
    run_id="digits-1",
    job_name="digits",
    kind="training",
    entry_point="train.py",
    python=sys.executable,
    checkpoints="/nowhere",
)


def test_it_is_read_from_the_agents_own_interpreter() -> None:
    assert torch_version(JOB) == metadata.version("torch")
    assert torch_version(replace(JOB, kind="processing")) is None


@pytest.fixture
def other_python(tmp_path: Path) -> str:
    """Another interpreter, whose packages include PyTorch 9.9."""
    folder = tmp_path / "other"
    venv.create(folder, with_pip=False)
    packages = next(folder.glob("lib/python*/site-packages"))
    (packages / "torch-9.9.dist-info").mkdir()
    (packages / "torch-9.9.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: torch\nVersion: 9.9\n"
    )
    return str(folder / "bin" / "python")


def test_another_interpreter_is_asked_only_by_jobs_of_pytorch(other_python: str) -> None:
    job = replace(JOB, python=other_python)
    assert torch_version(replace(job, framework="pytorch")) == "9.9"
    assert torch_version(job) is None
    assert torch_version(replace(job, framework="tensorflow")) is None
