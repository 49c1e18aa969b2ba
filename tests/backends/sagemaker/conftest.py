"""The emulator, once for the tests of planning and submitting, and a sandbox with a job for each."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.aws_emulator import RunningEmulator, running_emulator
from support.sagemaker_sandbox import SageMakerSandbox

_FOREIGN = ("AWS_PROFILE", "AWS_REGION", "AWS_SESSION_TOKEN", "GPUPROOF_ROLE_ARN", "GPUPROOF_BUCKET")
_NUMBERS = itertools.count(1)


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningEmulator]:
    """An AWS that really runs jobs; the environment's endpoint leads to it."""
    with (
        running_emulator(tmp_path_factory.mktemp("aws"), stop_grace=1.0) as running,
        pytest.MonkeyPatch.context() as patch,
    ):
        for name in _FOREIGN:
            patch.delenv(name, raising=False)
        for name, value in running.credentials.items():
            patch.setenv(name, value)
        yield running


@pytest.fixture
def sandbox(emulator: RunningEmulator, tmp_path: Path) -> Iterator[SageMakerSandbox]:
    """A job's folder, and a bucket of its own."""
    folder = tmp_path / "project"
    folder.mkdir()
    yield SageMakerSandbox(emulator, folder, emulator.bucket(f"bucket-{next(_NUMBERS)}"))
    emulator.faults()
