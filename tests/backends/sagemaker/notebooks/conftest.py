"""An empty account on the emulator for each test of notebook instances."""

from __future__ import annotations

import os
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.aws_cli import aws_cli
from support.aws_emulator import RunningEmulator, running_emulator
from support.notebook_sandbox import NotebookSandbox

_FOREIGN = ("AWS_PROFILE", "AWS_REGION", "AWS_SESSION_TOKEN", "GPUPROOF_ROLE_ARN", "GPUPROOF_BUCKET")


@pytest.fixture(scope="module")
def python_without_jupyter(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An interpreter without Jupyter, which takes seconds to start."""
    environment = tmp_path_factory.mktemp("python") / "env"
    venv.create(environment, symlinks=True)
    return str(environment / "bin" / "python3")


@pytest.fixture(scope="module")
def emulator_options(python_without_jupyter: str) -> dict[str, Any]:
    """Arguments of `running_emulator`."""
    return {"python": python_without_jupyter}


@pytest.fixture(scope="module")
def emulator(
    tmp_path_factory: pytest.TempPathFactory, emulator_options: dict[str, Any]
) -> Iterator[RunningEmulator]:
    """An AWS that runs notebook instances, with the AWS CLI on them; the environment's endpoint leads to it."""
    program = aws_cli()
    if not program:
        pytest.skip("there is no AWS CLI, and it cannot be installed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(Path(program).parent), prepend=os.pathsep)
        for name in _FOREIGN:
            patch.delenv(name, raising=False)
        with running_emulator(tmp_path_factory.mktemp("aws"), **emulator_options) as running:
            for name, value in running.credentials.items():
                patch.setenv(name, value)
            yield running


@pytest.fixture
def sandbox(emulator: RunningEmulator, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NotebookSandbox]:
    """An empty account, with GPUproof's role."""
    emulator.__dict__.pop("role", None)
    yield NotebookSandbox(emulator, tmp_path_factory.getbasetemp() / "notebook-cache")
    emulator.reset()
