"""The emulator, once for the tests of planning, and a sandbox with a job for each."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.aws_emulator import RunningEmulator, running_emulator
from support.ec2_planning import EC2PlanningSandbox, create_instance_profile

_FOREIGN = (
    "AWS_PROFILE",
    "AWS_REGION",
    "AWS_SESSION_TOKEN",
    "GPUPROOF_BUCKET",
    "GPUPROOF_INSTANCE_PROFILE",
)
_NUMBERS = itertools.count(1)


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningEmulator]:
    """An AWS with GPUproof's instance profile; the environment's endpoint leads to it."""
    with (
        running_emulator(tmp_path_factory.mktemp("aws"), stop_grace=1.0) as running,
        pytest.MonkeyPatch.context() as patch,
    ):
        for name in _FOREIGN:
            patch.delenv(name, raising=False)
        for name, value in running.credentials.items():
            patch.setenv(name, value)
        create_instance_profile(running)
        yield running


@pytest.fixture
def sandbox(emulator: RunningEmulator, tmp_path: Path) -> Iterator[EC2PlanningSandbox]:
    """A job's folder, and a bucket of its own."""
    folder = tmp_path / "project"
    folder.mkdir()
    yield EC2PlanningSandbox(emulator, folder, emulator.bucket(f"plans-{next(_NUMBERS)}"))
    emulator.faults()
