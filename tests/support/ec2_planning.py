"""A folder with a job, and an account in the emulator for it: for tests of planning runs on EC2."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpuproof.backends.aws import Aws
from gpuproof.backends.ec2.plan import EC2Plan
from gpuproof.backends.ec2.planner import Planner
from gpuproof.backends.ec2.planning.profile import DEFAULT_NAME, SERVICE
from gpuproof.jobs.models.script_jobs import ProcessingJob, TrainingJob
from support.aws_emulator import REGION, RunningEmulator, running_emulator

_FOREIGN = (
    "AWS_PROFILE",
    "AWS_REGION",
    "AWS_SESSION_TOKEN",
    "GPUPROOF_BUCKET",
    "GPUPROOF_INSTANCE_PROFILE",
    "GPUPROOF_ROLE_ARN",
)
SCRIPT = "import torch\nprint(torch.cuda.is_available())\n"


@contextlib.contextmanager
def emulated_account(folder: Path) -> Iterator[RunningEmulator]:
    """An AWS with GPUproof's instance profile; the environment's endpoint leads to it."""
    with running_emulator(folder, stop_grace=1.0) as running, pytest.MonkeyPatch.context() as patch:
        for name in _FOREIGN:
            patch.delenv(name, raising=False)
        for name, value in running.credentials.items():
            patch.setenv(name, value)
        create_instance_profile(running)
        yield running


class EC2PlanningSandbox:
    """What a test needs to plan runs on EC2.

    Args:
        emulator: answers.
        folder: has `src/train.py` and `data/`.
        bucket: to use.
    """

    def __init__(self, emulator: RunningEmulator, folder: Path, bucket: str) -> None:
        self.emulator = emulator
        self.folder = folder
        self.bucket = bucket
        self.aws = Aws(session=emulator.session, sleep=lambda _seconds: None, region=REGION)
        self.write("src/train.py", SCRIPT)
        self.write("data/a.csv", "1,2\n")

    def write(self, name: str, content: str) -> None:
        """Write a file of the folder."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)

    def training(self, **keys: Any) -> TrainingJob:
        """A training job on a `g5.xlarge`."""
        return TrainingJob(**self._keys(keys)).with_absolute_paths(self.folder)

    def processing(self, **keys: Any) -> ProcessingJob:
        """A processing job on a `g5.xlarge`."""
        return ProcessingJob(**self._keys(keys)).with_absolute_paths(self.folder)

    def plan(self, job: TrainingJob | ProcessingJob | None = None, *, fresh: bool = False) -> EC2Plan:
        """The plan of a job."""
        # One cache for all tests: building the agent's file takes half a second.
        cache = self.emulator.state.parent / "cache"
        return Planner(self.aws, cache).plan(job or self.training(), fresh=fresh)

    def _keys(self, keys: dict[str, Any]) -> dict[str, Any]:
        settings = {"bucket": self.bucket, **keys.pop("ec2", {})}
        if not {"instance_type", "resources"} & set(keys):
            keys = {"instance_type": "g5.xlarge", **keys}
        return {
            "entry_point": "train.py",
            "name": "small",
            "source_dir": "src",
            "max_duration": "1h",
            "ec2": settings,
            **keys,
        }


def create_instance_profile(
    emulator: RunningEmulator, name: str = DEFAULT_NAME, *, role: str | None = None, service: str = SERVICE
) -> str:
    """Create an instance profile with a role of the same name, or of another; returns its ARN."""
    iam = emulator.client("iam")
    trust = {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole"}],
    }
    iam.create_role(RoleName=role or name, AssumeRolePolicyDocument=json.dumps(trust))
    made = iam.create_instance_profile(InstanceProfileName=name)
    iam.add_role_to_instance_profile(InstanceProfileName=name, RoleName=role or name)
    return made["InstanceProfile"]["Arn"]
