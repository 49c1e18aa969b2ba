"""An emulator for batch transform jobs, and `gpuproof` in an empty home that reaches it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.aws_emulator import RunningEmulator, running_emulator
from support.cli_sandbox import CliSandbox
from support.emulator_jobs import Account


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningEmulator]:
    with running_emulator(tmp_path_factory.mktemp("aws"), stop_grace=5.0) as started:
        yield started


@pytest.fixture
def account(emulator: RunningEmulator, request: pytest.FixtureRequest) -> Iterator[Account]:
    name = f"t{abs(hash(request.node.name)) % 10**8}"
    yield Account(emulator, emulator.bucket(f"{name}-data"), name)
    emulator.faults()


@pytest.fixture
def cli(tmp_path: Path, emulator: RunningEmulator) -> CliSandbox:
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    project.mkdir()
    return CliSandbox(home, project, {**emulator.credentials, "GPUPROOF_ROLE_ARN": emulator.role})
