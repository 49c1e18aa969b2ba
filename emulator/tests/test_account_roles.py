"""What the emulator's account has from its start: the roles and the instance profile that GPUproof looks for."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import pytest

from gpuproof.backends.aws import Aws
from gpuproof.backends.ec2.planning.profile import find_profile
from gpuproof.backends.remote.planning.schedule_role import find_schedule_role
from gpuproof.backends.sagemaker.planning.role import find_role
from support.aws_emulator import REGION, running_emulator
from support.cli_sandbox import CliSandbox

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def test_a_role_that_is_missing_in_an_earlier_state_is_created_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_emulator(tmp_path) as emulator:
        assert not emulator.client("iam").list_roles()["Roles"]
    for _ in range(2):
        with running_emulator(tmp_path, role=True) as emulator:
            monkeypatch.setenv("AWS_ENDPOINT_URL", emulator.url)
            aws = Aws(session=emulator.session, region=REGION)
            assert find_role(aws).arn.endswith(":role/emulator")
            assert find_schedule_role(aws, "a test").endswith(":role/gpuproof-scheduler")
            assert find_profile(aws).name == "gpuproof-ec2"
            profile = emulator.client("iam").get_instance_profile(InstanceProfileName="gpuproof-ec2")
            assert [role["RoleName"] for role in profile["InstanceProfile"]["Roles"]] == ["gpuproof-ec2"]


def test_a_role_of_the_user_with_such_a_name_is_kept(tmp_path: Path) -> None:
    with running_emulator(tmp_path) as emulator:
        own = emulator.new_role("gpuproof-scheduler")
    with running_emulator(tmp_path, role=True) as emulator:
        kept = emulator.client("iam").get_role(RoleName="gpuproof-scheduler")["Role"]
        assert kept["Arn"] == own
        assert "sagemaker.amazonaws.com" in str(kept["AssumeRolePolicyDocument"])


def test_the_first_command_of_the_page_about_endpoints_deploys_and_schedules_the_end(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "endpoints.md").read_text()
    block = re.search(r"^```sh\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert block is not None
    words = shlex.split(block[1].splitlines()[0], comments=True)
    assert words[:2] == ["gpuproof", "deploy"]
    with running_emulator(tmp_path, role=True) as emulator:
        home, project = tmp_path / "home", tmp_path / "project"
        home.mkdir()
        project.mkdir()
        sandbox = CliSandbox(home, project, {**emulator.environment, "PATH": os.environ["PATH"]})
        sandbox.write("gpuproof.yaml", f"name: {words[2]}\nentry_point: train.py\nframework: pytorch\n")
        sandbox.write(
            "train.py", "from gpuproof import runtime\nfrom network import Net\nruntime.save(Net())\n"
        )
        sandbox.write(
            "network.py",
            "import torch\n\n\nclass Net(torch.nn.Linear):\n    def __init__(self):\n        super().__init__(4, 2)\n",
        )
        assert sandbox.gpuproof("run").returncode == 0
        done = sandbox.gpuproof(*words[1:], "--no-require-gpu")  # this machine may have no GPU
        assert done.returncode == 0, done.stderr
        (schedule,) = emulator.client("scheduler").list_schedules()["Schedules"]
        assert schedule["Name"] == f"gpuproof-{words[2]}"
        assert sandbox.gpuproof("delete", words[2]).returncode == 0
