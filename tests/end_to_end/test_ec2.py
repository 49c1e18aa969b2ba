"""`gpuproof run --on ec2` from the command to the verdict: the user data of the launched instance boots on a simulated one."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from support.aws_emulator import RunningEmulator, running_emulator
from support.simulated_instance import SimulatedInstance, require_simulated_instance

pytestmark = pytest.mark.slow

_PATIENCE_S = 120.0
_TRUST = {
    "Version": "2012-10-17",
    "Statement": [
        {"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}
    ],
}
TRAIN = """
import os
print("rows:", open(os.environ["SM_CHANNEL_TRAINING"] + "/rows.csv").read().strip(), flush=True)
print("variable:", os.environ["FLAVOUR"], flush=True)
open(os.path.join(os.environ["SM_MODEL_DIR"], "weights"), "w").write("trained")
"""
JOB = """
name: end-to-end
entry_point: train.py
instance_type: g5.xlarge
inputs: {training: data}
output: results
environment: {FLAVOUR: vanilla}
require_gpu: false
max_duration: 1h
"""


@pytest.fixture(scope="module")
def account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningEmulator]:
    """An account with an instance profile."""
    require_simulated_instance()
    with running_emulator(tmp_path_factory.mktemp("account")) as emulator:
        iam, name = emulator.client("iam"), "gpuproof-ec2"
        iam.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps(_TRUST))
        iam.create_instance_profile(InstanceProfileName=name)
        iam.add_role_to_instance_profile(InstanceProfileName=name, RoleName=name)
        yield emulator


class Project:
    """A folder with a job, and commands in it."""

    def __init__(self, account: RunningEmulator, folder: Path) -> None:
        self.account = account
        self.folder = folder
        self._environment = {
            **{
                name: value
                for name, value in os.environ.items()
                if not name.startswith(("AWS_", "GPUPROOF_"))
            },
            **account.credentials,
            "GPUPROOF_STATE_DIR": str(folder.parent / "state"),
            "NO_COLOR": "1",
        }
        (folder / "data").mkdir(parents=True)
        (folder / "data" / "rows.csv").write_text("1,2,3\n")

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start a command of `gpuproof`."""
        return subprocess.Popen(
            [sys.executable, "-m", "gpuproof", *words],
            cwd=self.folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *words: str) -> str:
        """The output of a command that succeeds."""
        started = self.start(*words)
        printed, _ = started.communicate(timeout=_PATIENCE_S)
        assert started.returncode == 0, printed
        return printed

    def write(self, script: str) -> None:
        """Write the job."""
        (self.folder / "train.py").write_text(script)
        (self.folder / "gpuproof.yaml").write_text(JOB)

    def launched(self) -> str:
        """The id of the instance that is launched next."""
        found: list[str] = []

        def is_there() -> bool:
            found[:] = self.instances("running")
            return bool(found)

        until(is_there, "a launched instance")
        return found[0]

    def instances(self, state: str) -> list[str]:
        """The ids of the instances in a state."""
        filters = [{"Name": "instance-state-name", "Values": [state]}]
        pages = self.account.client("ec2").describe_instances(Filters=filters)["Reservations"]
        return [one["InstanceId"] for page in pages for one in page["Instances"]]

    def boot(self, instance: str, folder: Path) -> SimulatedInstance:
        """A machine that boots the user data of an instance."""
        answer = self.account.client("ec2").describe_instance_attribute(
            InstanceId=instance, Attribute="userData"
        )
        script = base64.b64decode(answer["UserData"]["Value"]).decode()
        job: Any = SimpleNamespace(emulator=self.account, user_data=script)
        machine = SimulatedInstance(folder, job)
        machine.metadata(**{"meta-data/instance-id": instance})
        return machine

    def power_off(self, instance: str) -> None:
        """What EC2 does when the machine has shut down."""
        self.account.client("ec2").terminate_instances(InstanceIds=[instance])


@pytest.fixture
def project(account: RunningEmulator, tmp_path: Path) -> Project:
    return Project(account, tmp_path / "project")


def until(is_true: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + _PATIENCE_S
    while not is_true():
        assert time.monotonic() < end, what
        time.sleep(0.2)


def test_a_job_runs_from_the_command_to_the_verdict(project: Project, tmp_path: Path) -> None:
    project.write(TRAIN)
    command = project.start("run", "--on", "ec2", "--no-check")
    instance = project.launched()
    with project.boot(instance, tmp_path / "machine") as machine:
        machine.wait_until_off()
        console = machine.console
    project.power_off(instance)
    printed, _ = command.communicate(timeout=_PATIENCE_S)
    assert command.returncode == 0, f"{printed}\n{console}"
    assert "rows: 1,2,3\n" in printed
    assert "variable: vanilla\n" in printed
    assert "Completed" in printed
    (archive,) = (project.folder / "results").glob("*/output/model.tar.gz")
    assert archive.stat().st_size > 0
    listed = json.loads(project.run("ps", "--on", "ec2", "--format", "json"))["runs"]
    assert [(one["status"], one["exit_code"]) for one in listed] == [("Completed", 0)]
    run_id = listed[0]["id"]
    assert project.run("logs", run_id).startswith("rows: 1,2,3\n")
    assert "Completed" in project.run("show", run_id)
    project.run("pull", run_id, "--to", str(tmp_path / "pulled"), "-x")
    assert (tmp_path / "pulled" / "model" / "weights").read_text() == "trained"
    project.run("rm", run_id)
    assert "There are no runs" in project.run("ps", "--on", "ec2")
    assert project.instances("running") == []


def test_a_script_that_fails_ends_with_its_exception(project: Project, tmp_path: Path) -> None:
    project.write("raise ValueError('no rows')\n")
    command = project.start("run", "--on", "ec2", "--no-check")
    instance = project.launched()
    with project.boot(instance, tmp_path / "machine") as machine:
        machine.wait_until_off()
    project.power_off(instance)
    printed, _ = command.communicate(timeout=_PATIENCE_S)
    assert command.returncode == 1, printed
    assert "ValueError: no rows" in printed
