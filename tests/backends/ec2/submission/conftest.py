"""An emulated account for launches; each test has a VPC, a bucket and faults of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.aws_emulator import RunningEmulator, running_emulator
from support.ec2_sandbox import PROFILE, EC2Sandbox, running_sandbox

_FOREIGN = ("AWS_PROFILE", "AWS_REGION", "AWS_SESSION_TOKEN", "GPUPROOF_BUCKET")


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningEmulator]:
    """An AWS where the environment's endpoint leads."""
    with (
        running_emulator(tmp_path_factory.mktemp("aws")) as running,
        pytest.MonkeyPatch.context() as patch,
    ):
        for name in _FOREIGN:
            patch.delenv(name, raising=False)
        for name, value in running.credentials.items():
            patch.setenv(name, value)
        # The client's own retries are tested, not botocore's.
        patch.setenv("AWS_MAX_ATTEMPTS", "1")
        running.client("iam").create_instance_profile(InstanceProfileName=PROFILE)
        yield running


@pytest.fixture
def sandbox(
    emulator: RunningEmulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[EC2Sandbox]:
    """A job's folder, and an account to launch it in."""
    yield from running_sandbox(emulator, tmp_path / "project", monkeypatch)
    emulator.faults()
