"""`gpuproof run --on ec2` with an emulator that only records instances."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.aws_emulator import RunningEmulator, running_emulator
from support.cli_sandbox import CliSandbox

pytestmark = [pytest.mark.journey, pytest.mark.slow]

RUN = ("run", "train.py", "--no-check", "--no-require-gpu", "--instance-type", "g5.xlarge")


@pytest.fixture
def emulator(tmp_path: Path) -> Iterator[RunningEmulator]:
    with running_emulator(tmp_path, role=True) as running:
        yield running


@pytest.fixture
def cli(emulator: RunningEmulator, tmp_path: Path) -> CliSandbox:
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    project.mkdir()
    sandbox = CliSandbox(home, project, emulator.environment)
    sandbox.write("train.py", "import torch\n")
    return sandbox


def test_a_run_that_would_be_followed_is_refused_before_anything_is_created(
    cli: CliSandbox, emulator: RunningEmulator
) -> None:
    done = cli.gpuproof(*RUN, "--on", "ec2")
    assert done.returncode == 2
    assert "gpuproof emulator --boot-instances" in done.stderr
    assert not {"RunInstances", "CreateSecurityGroup", "CreateBucket"} & set(emulator.operations())


def test_a_dry_run_is_shown_and_a_detached_run_is_recorded_and_stopped(
    cli: CliSandbox, emulator: RunningEmulator
) -> None:
    assert cli.gpuproof(*RUN, "--on", "ec2", "--dry-run").returncode == 0
    detached = cli.gpuproof(*RUN, "--on", "ec2", "--detach", "--format", "json")
    assert detached.returncode == 0, detached.stderr
    run_id = json.loads(detached.stdout)["id"]
    stopped = cli.gpuproof("stop", "--now", run_id)
    assert stopped.returncode == 0, stopped.stderr
    assert f"{run_id}: Stopped: its instance was terminated by a request" in stopped.stdout


def test_the_cheapest_backend_is_one_that_runs_the_job(cli: CliSandbox) -> None:
    words = ("--on", "cheapest", "--format", "json", "--framework", "pytorch")
    document = json.loads(cli.gpuproof("run", "train.py", "--no-check", "--gpu", "A10G:1", *words).stdout)
    assert document["run"]["backend"] == "sagemaker"
