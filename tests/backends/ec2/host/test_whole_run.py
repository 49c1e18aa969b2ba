"""A run from its plan to its verdict: planned and submitted by the client, and executed by the instance that it launched."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from gpuproof.backends.ec2.submit import submit
from support.aws_emulator import RunningEmulator, running_emulator
from support.ec2_planning import EC2PlanningSandbox, create_instance_profile
from support.sagemaker_sandbox import RecordingProgress
from support.simulated_instance import SimulatedInstance, require_simulated_instance

pytestmark = pytest.mark.slow

SCRIPT = """
import os, pathlib, signal, sys, time
rows = pathlib.Path(os.environ["SM_CHANNEL_TRAINING"], "a.csv").read_text()
pathlib.Path(os.environ["SM_MODEL_DIR"], "model.txt").write_text(rows * 2)
print("hello", os.environ["WHO"], sys.argv[1:], flush=True)
if os.environ["WHO"] == "waiting":
    time.sleep(600)
"""


@dataclass
class Instance:
    """An instance that was launched.

    Args:
        emulator: where.
        id: its id.
    """

    emulator: RunningEmulator
    id: str

    @property
    def user_data(self) -> str:
        """What EC2 has received."""
        ec2 = self.emulator.client("ec2")
        found = ec2.describe_instance_attribute(InstanceId=self.id, Attribute="userData")
        return base64.b64decode(found["UserData"]["Value"]).decode()

    @property
    def tags(self) -> dict[str, str]:
        """Its tags, as its metadata service shows them."""
        filters = [{"Name": "resource-id", "Values": [self.id]}]
        found = self.emulator.client("ec2").describe_tags(Filters=filters)["Tags"]
        return {f"meta-data/tags/instance/{tag['Key']}": tag["Value"] for tag in found}


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningEmulator]:
    require_simulated_instance()
    with (
        running_emulator(tmp_path_factory.mktemp("aws")) as running,
        pytest.MonkeyPatch.context() as patch,
    ):
        for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "GPUPROOF_BUCKET", "GPUPROOF_INSTANCE_PROFILE"):
            patch.delenv(name, raising=False)
        for name, value in running.credentials.items():
            patch.setenv(name, value)
        create_instance_profile(running)
        yield running


def test_a_run_from_its_plan_to_its_results(emulator: RunningEmulator, tmp_path: Path) -> None:
    sandbox = EC2PlanningSandbox(emulator, tmp_path / "project", emulator.bucket("runs"))
    sandbox.write("src/train.py", SCRIPT)
    job = sandbox.training(
        inputs={"training": "data"},
        hyperparameters={"epochs": 3},
        environment={"WHO": "instance"},
        require_gpu=False,
    )
    run = next(submit(sandbox.plan(job), sandbox.aws, RecordingProgress()))
    assert run.record.status == "InProgress"
    instance = Instance(emulator, *run.launch.instances)
    with SimulatedInstance(tmp_path / "instance", instance, local_disk=True) as machine:
        machine.wait_until_off()
    record = run.wait()
    assert (record.status, record.backend, record.exit_code) == ("Completed", "ec2", 0), record.failure_reason
    assert run.verdict is not None
    with (tmp_path / "log").open("w+b") as log:
        run.write_log(log)
        log.seek(0)
        assert log.read() == b"hello instance ['--epochs', '3']\n"
    run.pull(tmp_path / "results", extract=True)
    assert (tmp_path / "results" / "model" / "model.txt").read_text() == "1,2\n1,2\n"


def test_a_run_is_stopped_from_the_client(emulator: RunningEmulator, tmp_path: Path) -> None:
    sandbox = EC2PlanningSandbox(emulator, tmp_path / "project", emulator.bucket("stopped"))
    sandbox.write("src/train.py", SCRIPT)
    job = sandbox.training(
        inputs={"training": "data"}, environment={"WHO": "waiting"}, require_gpu=False, max_duration="1h"
    )
    run = next(submit(sandbox.plan(job), sandbox.aws, RecordingProgress()))
    instance = Instance(emulator, *run.launch.instances)
    with SimulatedInstance(tmp_path / "instance", instance) as machine:
        machine.wait_for("gpuproof: Training")
        run.stop()
        machine.metadata(**instance.tags)
        machine.wait_until_off()
    record = run.wait()
    assert (record.status, record.secondary_status) == ("Stopped", "Stopped")
    # Only what the run has launched; the tests of launching look at everything else.
    assert list(run.launch.instances) == [instance.id]
