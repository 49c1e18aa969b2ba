"""Runs on EC2 without hosts: instances of the emulator, and the files that hosts would write."""

from __future__ import annotations

import itertools
import json
import secrets
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from gpuproof.agent.log_markers import VERDICT_MARKER
from gpuproof.backends.aws import Aws
from gpuproof.backends.ec2.launch_record import LaunchRecord
from gpuproof.backends.ec2.run import EC2Run
from gpuproof.backends.ec2.store import EC2RunStore
from gpuproof.backends.remote.s3_layout import RunLayout
from support.aws_emulator import REGION, RunningEmulator, running_emulator

_HURRY = 10
_NUMBERS = itertools.count(1)
_FOREIGN = ("AWS_PROFILE", "AWS_REGION", "AWS_SESSION_TOKEN", "HTTP_PROXY", "http_proxy")
VERDICT = {"outcome": "used", "gpu_requirement_met": True, "gpus": []}


class EC2Sandbox:
    """Launched instances, and the runs that look at them; for these, time goes ten times as fast.

    Args:
        emulator: the AWS.
        bucket: of the runs.
    """

    def __init__(self, emulator: RunningEmulator, bucket: str) -> None:
        self.emulator = emulator
        self.bucket = bucket
        self.aws = Aws(sleep=fast_sleep)

    def launch(self, name: str = "train", *, instances: int = 1, **fields: Any) -> LaunchRecord:
        """Launch instances and write the record of the launch."""
        number = next(_NUMBERS)
        run_id = fields.pop("run_id", None) or (
            f"{name[:42]}-20260501-12{number // 60:02}{number % 60:02}-{secrets.token_hex(2)}"
        )
        given: dict[str, Any] = {
            "kind": "training",
            "instance_type": "g5.xlarge",
            "instance_count": max(1, instances),
            "spot": False,
            "image": "ami-12c6146b",
            "created": time.time(),
            "max_duration": 3600.0,
            "usd_per_hour": 1.006,
            "on_demand_usd_per_hour": 1.006,
            "output": f"s3://{self.bucket}/{RunLayout(run_id).output}",
            **fields,
        }
        region = given.pop("region", REGION)
        made = LaunchRecord(run_id=run_id, job_name=name, region=region, bucket=self.bucket, **given)
        if instances:
            tags = {"gpuproof:run": run_id, "gpuproof:job": name, "gpuproof:bucket": self.bucket}
            answer = self.emulator.client("ec2", region).run_instances(
                ImageId=made.image,
                InstanceType=made.instance_type,
                MinCount=instances,
                MaxCount=instances,
                TagSpecifications=[
                    {
                        "ResourceType": "instance",
                        "Tags": [{"Key": key, "Value": value} for key, value in tags.items()],
                    }
                ],
            )
            made = replace(made, instances=tuple(instance["InstanceId"] for instance in answer["Instances"]))
        self.write(made)
        return made

    def write(self, launch: LaunchRecord) -> None:
        """Write a launch record."""
        self.aws.put_object(self.bucket, RunLayout(launch.run_id).launch, launch.to_bytes())

    def boot(self, launch: LaunchRecord, phase: str = "Training", host: str = "algo-1") -> None:
        """The host reports a phase."""
        phases = ("Starting", "Downloading", "Training", "Uploading")
        times = {item: time.time() for item in phases[: phases.index(phase) + 1]}
        self.report(launch, "boot.json", {"version": 1, "phase": phase, "times": times}, host)

    def end(
        self, launch: LaunchRecord, status: str = "Completed", *, seconds: float = 100.0, **fields: Any
    ) -> None:
        """The host reports its end, some seconds after its start, and its instance is terminated."""
        now = time.time()
        document = {
            "version": 1,
            "status": status,
            "secondary_status": status,
            "failure_reason": "",
            "exit_code": 0 if status == "Completed" else 1,
            "started": now,
            "script_started": now + 10,
            "ended": now + seconds,
            "interrupted": False,
            "stopped": status == "Stopped",
            "notes": [],
            **fields,
        }
        if fields.get("script_started", 0.0) is not None:
            self.report(launch, "verdict.json", VERDICT)
            self.report(
                launch, "run.json", {"verdict": "used", "gpu_requirement_met": True, "command": ["train.py"]}
            )
        self.report(launch, "end.json", document)
        if launch.instances:
            self.terminate(launch)

    def report(self, launch: LaunchRecord, name: str, document: Any, host: str = "algo-1") -> None:
        """A host writes a file."""
        key = RunLayout(launch.run_id).host_file(host, name)
        self.aws.put_object(self.bucket, key, json.dumps(document).encode())

    def log(self, launch: LaunchRecord, *lines: str, host: str = "algo-1", at: float | None = None) -> None:
        """A host prints lines."""
        logs = self.emulator.client("logs")
        stream = f"{launch.run_id}/{host}"
        for create, names in (
            (logs.create_log_group, {"logGroupName": "/gpuproof/ec2"}),
            (logs.create_log_stream, {"logGroupName": "/gpuproof/ec2", "logStreamName": stream}),
        ):
            try:
                create(**names)
            except logs.exceptions.ResourceAlreadyExistsException:
                continue
        begin = int((at or time.time()) * 1000)
        events = [{"timestamp": begin + number, "message": line} for number, line in enumerate(lines)]
        logs.put_log_events(logGroupName="/gpuproof/ec2", logStreamName=stream, logEvents=events)

    def terminate(self, launch: LaunchRecord) -> None:
        """Terminate the instances, as a user in the console would."""
        self.emulator.client("ec2").terminate_instances(InstanceIds=list(launch.instances))

    def states(self, launch: LaunchRecord) -> list[str]:
        """The states of its instances."""
        return [instance["State"]["Name"] for instance in self.aws.instances(launch.instances)]

    def look_at(self, launch: LaunchRecord, **options: Any) -> EC2Run:
        """A run as another machine would look at it."""
        return EC2Run(self.aws, launch, clock=fast_clock, sleep=fast_sleep, **options)

    def store(self) -> EC2RunStore:
        """The runs, with nothing remembered."""
        return EC2RunStore(self.aws)

    def keys(self, prefix: str = "") -> list[str]:
        """The keys in the bucket."""
        return [item.key for item in self.aws.list_objects(self.bucket, prefix)]


def fast_sleep(seconds: float) -> None:
    time.sleep(seconds / _HURRY)


def fast_clock() -> float:
    return time.monotonic() * _HURRY


def verdict_line(outcome: str = "used") -> str:
    """The agent's last line."""
    return VERDICT_MARKER + json.dumps({**VERDICT, "outcome": outcome})


@pytest.fixture(scope="session")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningEmulator]:
    with running_emulator(tmp_path_factory.mktemp("ec2-runs")) as running:
        yield running


@pytest.fixture
def ec2(emulator: RunningEmulator, monkeypatch: pytest.MonkeyPatch) -> Iterator[EC2Sandbox]:
    """The emulator is this process's AWS; each test has a bucket of its own."""
    for name in _FOREIGN:
        monkeypatch.delenv(name, raising=False)
    for name, value in emulator.credentials.items():
        monkeypatch.setenv(name, value)
    bucket = emulator.bucket(f"runs-{next(_NUMBERS)}-{secrets.token_hex(4)}")
    monkeypatch.setenv("GPUPROOF_BUCKET", bucket)
    emulator.faults()
    yield EC2Sandbox(emulator, bucket)
    emulator.faults()
