"""The emulator, once for the tests of planning, and a sandbox with a job for each."""

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
    """An AWS with GPUproof's instance profile; the environment's endpoint leads to it."""
    with emulated_account(tmp_path_factory.mktemp("aws")) as running:
        yield running


@pytest.fixture
def sandbox(emulator: RunningEmulator, tmp_path: Path) -> Iterator[EC2PlanningSandbox]:
    """A job's folder, and a bucket of its own."""
    folder = tmp_path / "project"
    folder.mkdir()
    yield EC2PlanningSandbox(emulator, folder, emulator.bucket(f"plans-{next(_NUMBERS)}"))
    emulator.faults()
