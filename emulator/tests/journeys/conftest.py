"""One emulator for the journeys of a worker, which holds the Describe requests of SDKs as `gpuproof emulator` does by default."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest

from support.aws_emulator import RunningEmulator, running_emulator
from support.emulator_jobs import Account


@pytest.fixture(scope="session")
def _holding(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningEmulator]:
    # A framework with a thread for each core waits for the other tests most of the time.
    threads = {"OMP_NUM_THREADS": "1"}
    folder = tmp_path_factory.mktemp("journeys")
    with running_emulator(folder, stop_grace=30.0, hold=20.0, environment=threads) as emulator:
        yield emulator


@pytest.fixture
def aws(_holding: RunningEmulator) -> Iterator[Account]:
    """A bucket of the test's own in an emulator that holds its answers to SDKs."""
    name = f"j-{secrets.token_hex(4)}"
    yield Account(_holding, _holding.bucket(name), name)
    _holding.faults()
