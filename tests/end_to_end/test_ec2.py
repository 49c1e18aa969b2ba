"""`gpuproof run --on ec2` from the command to the verdict, with the emulator's instances, which boot their user data."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.aws_emulator import REGION, RunningEmulator, running_emulator
from support.simulated_instance import aws_cli_in_path, require_simulated_instance

pytestmark = pytest.mark.slow

OTHER_REGION = "us-west-2"
_PATIENCE_S = 240.0
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
    with (
        aws_cli_in_path(),
        running_emulator(tmp_path_factory.mktemp("account"), words=("--boot-instances",)) as emulator,
    ):
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
            "GPUPROOF_CACHE_DIR": str(account.state.parent / "cache"),
            "NO_COLOR": "1",
        }
        (folder / "data").mkdir(parents=True)
        (folder / "data" / "rows.csv").write_text("1,2,3\n")

    def run(self, *words: str, code: int = 0) -> str:
        """The output of a command of `gpuproof`.

        Args:
            code: the expected exit code.
        """
        done = subprocess.run(
            [sys.executable, "-m", "gpuproof", *words],
            cwd=self.folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_PATIENCE_S,
            check=False,
        )
        assert done.returncode == code, f"{done.stdout}\n{self.consoles()}"
        return done.stdout

    def write(self, script: str) -> None:
        """Write the job."""
        (self.folder / "train.py").write_text(script)
        (self.folder / "gpuproof.yaml").write_text(JOB)

    def instances(self, state: str, region: str = REGION) -> list[str]:
        """The ids of the instances of a region in a state."""
        filters = [{"Name": "instance-state-name", "Values": [state]}]
        pages = self.account.client("ec2", region).describe_instances(Filters=filters)["Reservations"]
        return [one["InstanceId"] for page in pages for one in page["Instances"]]

    def wait_until_terminated(self, region: str = REGION) -> None:
        """Wait until no instance runs: the command ends as soon as the instance has reported the end of the job."""
        end = time.monotonic() + _PATIENCE_S
        while any(self.instances(state, region) for state in ("pending", "running", "shutting-down")):
            assert time.monotonic() < end, self.consoles()
            time.sleep(0.2)

    def keys(self) -> list[str]:
        """All keys in GPUproof's bucket."""
        s3 = self.account.client("s3")
        (bucket,) = [
            one["Name"] for one in s3.list_buckets()["Buckets"] if one["Name"].startswith("gpuproof-")
        ]
        return [one["Key"] for one in s3.list_objects_v2(Bucket=bucket).get("Contents", ())]

    def consoles(self) -> str:
        """What all instances have printed."""
        return "\n".join(
            self.account.client("ec2", region).get_console_output(InstanceId=one)["Output"]
            for region in (REGION, OTHER_REGION)
            for state in ("running", "terminated")
            for one in self.instances(state, region)
        )


@pytest.fixture
def project(account: RunningEmulator, tmp_path: Path) -> Iterator[Project]:
    yield Project(account, tmp_path / "project")
    account.faults()


def test_a_job_runs_from_the_command_to_the_verdict(project: Project, tmp_path: Path) -> None:
    project.write(TRAIN)
    printed = project.run("run", "--on", "ec2", "--no-check")
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
    project.wait_until_terminated()
    project.run("rm", run_id)
    assert "There are no runs" in project.run("ps", "--on", "ec2")


def test_a_script_that_fails_ends_with_its_exception(project: Project) -> None:
    project.write("raise ValueError('no rows')\n")
    printed = project.run("run", "--on", "ec2", "--no-check", code=1)
    assert "ValueError: no rows" in printed


def test_a_job_runs_in_another_region_than_its_files(project: Project, tmp_path: Path) -> None:
    project.account.faults(f"capacity,service=ec2,region={REGION}")
    project.write(TRAIN)
    printed = project.run("run", "--on", "ec2", "--no-check", "--regions", OTHER_REGION)
    assert f"g5.xlarge in {REGION}a: InsufficientInstanceCapacity" in printed
    assert "rows: 1,2,3\n" in printed
    assert "Completed" in printed
    assert project.instances("running") == []
    project.wait_until_terminated(OTHER_REGION)
    (archive,) = (project.folder / "results").glob("*/output/model.tar.gz")
    assert archive.stat().st_size > 0
    listed = json.loads(project.run("ps", "--on", "ec2", "--format", "json"))["runs"]
    (run,) = [one for one in listed if one["region"] == OTHER_REGION]
    assert (run["status"], run["exit_code"]) == ("Completed", 0)
    run_id = run["id"]
    assert project.run("logs", run_id).startswith("rows: 1,2,3\n")
    assert "Completed" in project.run("show", run_id)
    project.run("pull", run_id, "--to", str(tmp_path / "pulled"), "-x")
    assert (tmp_path / "pulled" / "model" / "weights").read_text() == "trained"
    project.run("rm", run_id)
    keys = project.keys()
    assert not [key for key in keys if run_id in key], keys


def test_a_job_in_another_region_is_stopped(project: Project) -> None:
    project.account.faults(f"capacity,service=ec2,region={REGION}")
    project.write("print('waiting', flush=True)\nimport time\ntime.sleep(600)\n")
    printed = project.run(
        "run", "--on", "ec2", "--no-check", "--regions", OTHER_REGION, "--detach", "--format", "json"
    )
    run_id = json.loads(printed[printed.index("{") :])["id"]
    end = time.monotonic() + _PATIENCE_S
    while "waiting" not in project.run("logs", run_id):
        assert time.monotonic() < end, project.consoles()
        time.sleep(0.5)
    listed = json.loads(project.run("ps", "--on", "ec2", "--format", "json"))["runs"]
    assert [one["status"] for one in listed if one["id"] == run_id] == ["InProgress"]
    project.run("stop", run_id)
    assert "Stopped" in project.run("wait", run_id, code=1)
    project.wait_until_terminated(OTHER_REGION)
    project.run("rm", run_id)
