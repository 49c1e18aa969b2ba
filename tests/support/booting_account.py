"""Commands in an account of the emulator whose EC2 instances boot their user data."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from support.aws_emulator import REGION, RunningEmulator, running_emulator
from support.simulated_instance import aws_cli_in_path, require_simulated_instance

OTHER_REGION = "us-west-2"
_PATIENCE_S = 600.0
_OF_A_RUN = (
    r"gpuproof/ec2/{run}\.json",
    r"gpuproof/ec2/regions/[a-z0-9-]+/{run}",
    r"gpuproof/runs/{run}/code/(gpuproof-agent\.pyz|source\.tar\.gz|job\.json|environment\.json)",
    r"gpuproof/runs/{run}/hosts/algo-\d/(address|boot|end|jupyter|live|run|verdict)\.json",
    r"gpuproof/runs/{run}/hosts/algo-\d/output\.log",
    r"gpuproof/runs/{run}/output/{run}/output/(algo-\d/)?(model|output)\.tar\.gz",
)
"""Keys of the files of a run, by patterns."""
_TRUST = {
    "Version": "2012-10-17",
    "Statement": [
        {"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}
    ],
}


@contextlib.contextmanager
def booting_account(folder: Path) -> Iterator[RunningEmulator]:
    """An account with an instance profile; skips the test where instances cannot boot.

    Args:
        folder: an empty folder.
    """
    require_simulated_instance()
    with (
        aws_cli_in_path(),
        running_emulator(folder, words=("--boot-instances",)) as emulator,
    ):
        iam, name = emulator.client("iam"), "gpuproof-ec2"
        iam.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps(_TRUST))
        iam.create_instance_profile(InstanceProfileName=name)
        iam.add_role_to_instance_profile(InstanceProfileName=name, RoleName=name)
        yield emulator


def _is_expected(key: str, runs: set[str]) -> bool:
    """Whether a key is that of an upload or a checkpoint, or of a file of one of these runs."""
    if re.match(r"gpuproof/(objects|inputs|manifests|checkpoints)/", key):
        return True
    return any(re.fullmatch(pattern.format(run=re.escape(run)), key) for run in runs for pattern in _OF_A_RUN)


class Project:
    """A folder with a job, and commands in it.

    Args:
        account: where jobs run.
        folder: is created; GPUproof's state is next to it.
        variables: further variables of the commands.
        own_cache: whether it has a cache of its own, as another computer has.
    """

    def __init__(
        self,
        account: RunningEmulator,
        folder: Path,
        variables: Mapping[str, str] | None = None,
        *,
        own_cache: bool = False,
    ) -> None:
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
            "GPUPROOF_CACHE_DIR": str((folder if own_cache else account.state).parent / "cache"),
            "NO_COLOR": "1",
            **(variables or {}),
        }
        (folder / "data").mkdir(parents=True)
        (folder / "data" / "rows.csv").write_text("1,2,3\n")

    def run(self, *words: str, code: int = 0) -> str:
        """The output of a command of `gpuproof`.

        Args:
            code: the expected exit code.
        """
        done = self._execute(*words)
        assert done.returncode == code, f"{done.stdout}\n{self.consoles()}"
        return done.stdout

    def logs(self, run: str) -> str:
        """What `gpuproof logs` prints; empty as long as it finds none."""
        done = self._execute("logs", run)
        return done.stdout if done.returncode == 0 else ""

    def write(self, script: str, job: str) -> None:
        """Write a script, and the job that runs it."""
        (self.folder / "train.py").write_text(script)
        (self.folder / "gpuproof.yaml").write_text(job)

    def start(self, *words: str, output: Path) -> subprocess.Popen[bytes]:
        """Start a command whose output goes into a file."""
        with output.open("wb") as file:
            return subprocess.Popen(
                [sys.executable, "-m", "gpuproof", *words],
                cwd=self.folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
            )

    def _execute(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
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

    def running_instances(self) -> list[dict[str, Any]]:
        """The instances that run, as EC2 describes them."""
        filters = [{"Name": "instance-state-name", "Values": ["running"]}]
        pages = self.account.client("ec2").describe_instances(Filters=filters)["Reservations"]
        return [instance for page in pages for instance in page["Instances"]]

    def wait_for(self, is_true: Callable[[], bool]) -> None:
        """Wait until a condition holds."""
        end = time.monotonic() + _PATIENCE_S
        while not is_true():
            assert time.monotonic() < end, self.consoles()
            time.sleep(0.3)

    def instances(self, state: str, region: str = REGION) -> list[str]:
        """The ids of the instances of a region in a state."""
        filters = [{"Name": "instance-state-name", "Values": [state]}]
        pages = self.account.client("ec2", region).describe_instances(Filters=filters)["Reservations"]
        return [instance["InstanceId"] for page in pages for instance in page["Instances"]]

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
            bucket["Name"]
            for bucket in s3.list_buckets()["Buckets"]
            if bucket["Name"].startswith("gpuproof-")
        ]
        pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket)
        return [content["Key"] for page in pages for content in page.get("Contents", ())]

    def assert_only_runs_are_left(self) -> None:
        """Nothing runs, and there are no volumes, schedules or objects but those of runs that `gpuproof ps` lists.

        One security group for each VPC is kept for later runs.
        """
        for region in (REGION, OTHER_REGION):
            self.wait_until_terminated(region)
            ec2 = self.account.client("ec2", region)
            assert ec2.describe_volumes()["Volumes"] == []
            groups = [group["GroupName"] for group in ec2.describe_security_groups()["SecurityGroups"]]
            assert groups.count("gpuproof") <= 1
            assert set(groups) <= {"default", "gpuproof"}
        assert self.account.client("scheduler").list_schedules()["Schedules"] == []
        keys = self.keys()
        runs = {found[1] for key in keys if (found := re.fullmatch(r"gpuproof/ec2/([^/]+)\.json", key))}
        assert [key for key in keys if not _is_expected(key, runs)] == []

    def consoles(self) -> str:
        """What all instances have printed."""
        return "\n".join(
            self.account.client("ec2", region).get_console_output(InstanceId=instance)["Output"]
            for region in (REGION, OTHER_REGION)
            for state in ("running", "terminated")
            for instance in self.instances(state, region)
        )
