"""One emulator for all tests of a worker; each test uses unique names and cleans up."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest

from support.aws_emulator import RunningEmulator, running_emulator
from support.emulator_jobs import Account


@pytest.fixture(scope="session")
def _emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningEmulator]:
    with running_emulator(tmp_path_factory.mktemp("aws"), stop_grace=30.0) as emulator:
        yield emulator


@pytest.fixture
def aws(_emulator: RunningEmulator) -> Iterator[Account]:
    """A bucket of the test's own in an emulator that answers."""
    name = f"t-{secrets.token_hex(4)}"
    yield Account(_emulator, _emulator.bucket(name), name)
    _emulator.faults()
