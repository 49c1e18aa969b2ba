"""An account with SageMaker's role and EC2's instance profile, and a sandbox with a job for each test."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.aws_emulator import RunningEmulator
from support.ec2_planning import EC2PlanningSandbox, emulated_account

_NUMBERS = itertools.count(1)


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningEmulator]:
    """The account; one cache for all tests, because building the agent's file takes half a second."""
    with (
        emulated_account(tmp_path_factory.mktemp("aws")) as running,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("GPUPROOF_CACHE_DIR", str(running.state.parent / "cache"))
        patch.setenv("GPUPROOF_STATE_DIR", str(running.state.parent / "state"))
        patch.setenv("GPUPROOF_ROLE_ARN", running.role)
        yield running


@pytest.fixture
def sandbox(emulator: RunningEmulator, tmp_path: Path) -> Iterator[EC2PlanningSandbox]:
    """A job's folder, and a bucket of its own."""
    folder = tmp_path / "project"
    folder.mkdir()
    yield EC2PlanningSandbox(emulator, folder, emulator.bucket(f"cheapest-{next(_NUMBERS)}"))
    emulator.faults()
