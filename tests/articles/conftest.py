"""A project for a block, and an account of the emulator whose jobs and endpoints really run."""

from __future__ import annotations

import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.article_blocks import BLOCKS
from support.aws_emulator import RunningEmulator, running_emulator
from support.cli_sandbox import CliSandbox
from support.emulator_jobs import Account
from support.sdk_environments import interpreter_of
from support.sdk_scripts import environment, job_logs

_LIMIT = 900
_CONFIG = """
SchemaVersion: '1.0'
SageMaker:
  PythonSDK:
    Modules:
      Session:
        DefaultS3Bucket: {bucket}
"""


@dataclass
class Launcher:
    """Starts the mended blocks of an article in an account.

    Args:
        aws: the account.
        folder: an empty folder.
    """

    aws: Account
    folder: Path

    def run(self, block: str, *, sdk: str | None = "sagemaker-v2", **variables: str) -> dict[str, str]:
        """Run `launch.py` of a mended block to its end; what it printed, by the word before the colon.

        Args:
            block: its folder below `blocks`.
            sdk: the environment that has the SDK; the one of the tests if None.
            variables: further environment variables.
        """
        project = self.folder / block.replace("/", "-")
        shutil.copytree(BLOCKS / block / "mended", project)
        config = self.folder / "sagemaker.yaml"
        config.write_text(_CONFIG.format(bucket=self.aws.bucket))
        done = subprocess.run(
            [sys.executable if sdk is None else interpreter_of(sdk), "launch.py"],
            cwd=project,
            env={
                **environment(self.aws.emulator, self.folder / "home"),
                "SAGEMAKER_USER_CONFIG_OVERRIDE": str(config),
                "ROLE": self.aws.emulator.role,
                "BUCKET": self.aws.bucket,
                **variables,
            },
            capture_output=True,
            text=True,
            check=False,
            timeout=_LIMIT,
        )
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}\n{job_logs(self.aws.emulator)}"
        lines = [line.partition(": ") for line in done.stdout.splitlines()]
        return {name: value for name, colon, value in lines if colon}


@pytest.fixture
def sandbox(tmp_path: Path) -> CliSandbox:
    """A home and a project of the test's own."""
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    project.mkdir()
    return CliSandbox(home, project)


@pytest.fixture(scope="module")
def _emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningEmulator]:
    # A framework with a thread for each core waits for the other tests most of the time.
    threads = {"OMP_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "2"}
    with running_emulator(
        tmp_path_factory.mktemp("articles"), stop_grace=30.0, hold=20.0, environment=threads
    ) as made:
        yield made


@pytest.fixture
def launcher(_emulator: RunningEmulator, tmp_path: Path) -> Launcher:
    """An account with a bucket of the test's own."""
    name = f"a-{secrets.token_hex(4)}"
    return Launcher(Account(_emulator, _emulator.bucket(name), name), tmp_path)
