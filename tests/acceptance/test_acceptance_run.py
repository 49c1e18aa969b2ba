"""The acceptance run from its first command to an empty account, on the emulator with instances that boot and a simulated GPU."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from acceptance import facts, recording
from acceptance.steps import ENDPOINT, STEPS
from acceptance.target import TOKEN
from support.aws_emulator import ACCOUNT, RunningEmulator, running_emulator
from support.nvml_stub import Scenario, build_library
from support.simulated_instance import aws_cli_in_path, require_simulated_instance

pytestmark = [pytest.mark.slow, pytest.mark.journey]

_TESTS = Path(__file__).parent.parent
_PATIENCE_S = 1800.0
_POLICIES = (("--setup",), ("--cleanup",), ("--user",), ("--on", "ec2", "--user"))


class Acceptance:
    """Acceptance runs in one account.

    Args:
        folder: has the state of the run and the simulated GPU.
    """

    def __init__(self, emulator: RunningEmulator, folder: Path, gpu: Path) -> None:
        self.emulator = emulator
        self.folder = folder / "acceptance"
        self._words = ("--yes", "--folder", str(self.folder), "--simulated-gpu", str(gpu))
        self._environment = {
            **{
                name: value
                for name, value in os.environ.items()
                if not name.startswith(("AWS_", "GPUPROOF_"))
            },
            **emulator.credentials,
            **_user_with_printed_policies(emulator),
            TOKEN: emulator.token,
            "AWS_REGION": "us-east-1",
            "GPUPROOF_STATE_DIR": str(folder / "state"),
            "GPUPROOF_CACHE_DIR": str(folder / "cache"),
            "PYTHONPATH": str(_TESTS),
        }

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "acceptance", *self._words, *words],
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *words: str, code: int = 0) -> str:
        process = self.start(*words)
        printed, _ = process.communicate(timeout=_PATIENCE_S)
        assert process.returncode == code, printed
        return printed

    @property
    def recorded(self) -> dict[str, Any]:
        return json.loads((self.folder / "acceptance.json").read_text())

    def endpoints(self) -> list[str]:
        found = self.emulator.client("sagemaker").list_endpoints()["Endpoints"]
        return [endpoint["EndpointName"] for endpoint in found]

    def assert_nothing_runs(self) -> None:
        """No instance, endpoint, notebook instance, schedule, model or configuration is there."""
        sagemaker, ec2 = self.emulator.client("sagemaker"), self.emulator.client("ec2")
        states = {"Name": "instance-state-name", "Values": ["pending", "running", "stopping", "stopped"]}
        assert ec2.describe_instances(Filters=[states])["Reservations"] == []
        assert ec2.describe_volumes()["Volumes"] == []
        assert self.endpoints() == sagemaker.list_endpoint_configs()["EndpointConfigs"] == []
        assert sagemaker.list_models()["Models"] == []
        assert sagemaker.list_notebook_instances()["NotebookInstances"] == []
        assert self.emulator.client("scheduler").list_schedules()["Schedules"] == []


def _user_with_printed_policies(emulator: RunningEmulator) -> dict[str, str]:
    """Credentials of a user who has what `gpuproof iam policy` prints, and nothing else."""
    iam, name = emulator.client("iam"), "acceptance"
    iam.create_user(UserName=name)
    for number, words in enumerate(_POLICIES):
        command = [sys.executable, "-m", "gpuproof", "iam", "policy", *words, "--account", ACCOUNT]
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        iam.put_user_policy(UserName=name, PolicyName=f"gpuproof-{number}", PolicyDocument=printed)
    key = iam.create_access_key(UserName=name)["AccessKey"]
    return {"AWS_ACCESS_KEY_ID": key["AccessKeyId"], "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"]}


@pytest.fixture
def acceptance(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Acceptance]:
    require_simulated_instance()
    gpu = tmp_path / "gpu"
    gpu.mkdir()
    machine = (
        Scenario(gpu / "gpus.txt", driver="580.95.05", cuda=13000).seen(gpu / "looks").gpu(0, "Tesla T4")
    )
    machine.when_registered(gpu / "pid", 0, util=90, memory_mib=4000).write()
    stub = machine.environment(build_library(tmp_path_factory.getbasetemp() / "stub"))
    with (
        aws_cli_in_path(),
        running_emulator(tmp_path, environment=stub, words=("--boot-instances", "--enforce-iam")) as emulator,
    ):
        yield Acceptance(emulator, tmp_path, gpu)


@pytest.mark.nightly
def test_an_empty_account_passes_all_steps_and_is_empty_again(acceptance: Acceptance) -> None:
    printed = acceptance.run("--only-printed-policies", "--remove-setup")
    assert "left       nothing" in printed
    recorded = acceptance.recorded
    assert (recorded["backend"], recorded["failure"]) == ("emulator", None)
    skipped = {step.name for step in STEPS if step.account_only}
    assert set(recorded["steps"]) == {step.name for step in STEPS} - skipped
    assert facts.problems(recorded["facts"]) == []
    assert recorded["facts"]["endpoint-ttl"] is recorded["facts"]["user-policies"] is True
    assert recorded["facts"]["sagemaker-processes"] == "processes"
    assert recording.private_parts(json.dumps(recorded)) == []
    acceptance.assert_nothing_runs()
    iam = acceptance.emulator.client("iam")
    assert iam.list_roles()["Roles"] == iam.list_instance_profiles()["InstanceProfiles"] == []
    assert acceptance.emulator.client("s3").list_buckets()["Buckets"] == []


@pytest.mark.nightly
def test_a_failure_and_an_interrupt_delete_everything_and_the_next_run_continues(
    acceptance: Acceptance,
) -> None:
    acceptance.emulator.faults("access-denied,service=sagemaker,operation=CreateEndpoint")
    printed = acceptance.run(code=1)
    assert "FAILED: endpoint: exit code" in printed
    assert "left       nothing" in printed
    assert "predict:" not in printed.partition("1 of ")[2]
    acceptance.assert_nothing_runs()
    done = json.loads((acceptance.folder / "state.json").read_text())["done"]
    assert "ec2" in done
    # Its instance was deleted.
    assert "limit-start" not in done

    acceptance.emulator.faults()
    process = acceptance.start()
    end = time.monotonic() + _PATIENCE_S
    while ENDPOINT not in acceptance.endpoints():
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    printed, _ = process.communicate(timeout=_PATIENCE_S)
    assert process.returncode == 130, printed
    assert " ec2: " not in printed
    acceptance.assert_nothing_runs()
