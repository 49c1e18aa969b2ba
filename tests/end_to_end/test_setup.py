"""From an empty account to the first run: `gpuproof setup`, a training job, an endpoint with its schedule, and nothing left."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.aws_emulator import running_emulator
from support.cli_sandbox import CliSandbox

pytestmark = [pytest.mark.journey, pytest.mark.slow]

TRAIN = "from gpuproof import runtime\nfrom network import Net\nruntime.save(Net())\n"
NETWORK = (
    "import torch\n\n\nclass Net(torch.nn.Linear):\n    def __init__(self):\n        super().__init__(4, 2)\n"
)
TYPE = ("--instance-type", "ml.g5.xlarge", "--no-require-gpu")


def test_an_empty_account_runs_and_deploys_after_one_command(tmp_path: Path) -> None:
    with running_emulator(tmp_path) as emulator:
        home, project = tmp_path / "home", tmp_path / "project"
        home.mkdir()
        project.mkdir()
        sandbox = CliSandbox(home, project, {**emulator.environment, "PATH": os.environ["PATH"]})
        sandbox.write("gpuproof.yaml", "name: digits\nentry_point: train.py\nframework: pytorch\n")
        sandbox.write("train.py", TRAIN)
        sandbox.write("network.py", NETWORK)
        before = sandbox.gpuproof("run", "--on", "sagemaker", *TYPE)
        assert before.returncode == 2
        assert "gpuproof setup" in before.stderr
        assert sandbox.gpuproof("setup", "--yes").returncode == 0
        ran = sandbox.gpuproof("run", "--on", "sagemaker", *TYPE)
        assert ran.returncode == 0, ran.stderr
        deployed = sandbox.gpuproof("deploy", "digits", *TYPE, "--ttl", "2h")
        assert deployed.returncode == 0, deployed.stderr
        assert (
            sandbox.gpuproof("run", "--on", "ec2", "--instance-type", "g5.xlarge", "--dry-run").returncode
            == 0
        )
        assert sandbox.gpuproof("delete", "digits").returncode == 0
        # The results of the runs are in the bucket.
        assert sandbox.gpuproof("setup", "--remove", "--yes", "--include-data").returncode == 0
        iam = emulator.client("iam")
        assert iam.list_roles()["Roles"] == iam.list_instance_profiles()["InstanceProfiles"] == []
        assert emulator.client("s3").list_buckets()["Buckets"] == []
        groups = emulator.client("ec2").describe_security_groups()["SecurityGroups"]
        assert {group["GroupName"] for group in groups} == {"default"}
