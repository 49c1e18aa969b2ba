"""Jobs for simulated EC2 instances: their code on S3, user data, and what the host reports."""

from __future__ import annotations

import io
import json
import re
import secrets
import sys
import tarfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from gpuproof.agent.ec2_host.parameters import HostParameters
from gpuproof.agent.job import VERSION, AgentJob, ProcessingOutput
from gpuproof.backends.agent_job.archive import build_agent
from gpuproof.backends.ec2.user_data import user_data
from gpuproof.backends.remote.s3_layout import RunLayout, uri
from support.aws_emulator import REGION, RunningEmulator

_OF_A_RUN = (
    r"gpuproof/runs/train-[0-9a-f-]+/("
    r"code/(gpuproof-agent\.pyz|source\.tar\.gz|job\.json|environment\.json)"
    r"|hosts/algo-\d/(address|boot|end|jupyter|live|run|verdict)\.json"
    r"|hosts/algo-\d/output\.log"
    r"|output/train-[0-9a-f-]+/output/(algo-\d/)?(model|output)(\.tar\.gz|/.+)"
    r")"
)
"""Keys of the files of a run; a folder is uploaded as it is if the disk has no room for its archive."""


class HostJobs:
    """Creates jobs in an emulated account.

    Args:
        emulator: the emulator.
        folder: for the agent's file.
    """

    def __init__(self, emulator: RunningEmulator, folder: Path) -> None:
        self.emulator = emulator
        self.bucket = emulator.bucket(f"runs-{secrets.token_hex(4)}")
        agent = folder / "gpuproof-agent.pyz"
        build_agent(agent)
        self._agent = agent.read_bytes()

    def new(
        self,
        script: str,
        *,
        kind: str = "training",
        environment: Mapping[str, str] | None = None,
        job: Mapping[str, Any] | None = None,
        **parameters: Any,
    ) -> HostJob:
        """Fill the code channel of a new job.

        Args:
            script: `train.py`.
            environment: the job's variables.
            job: further values of `job.json`.
            parameters: other than the usual parameters of the host.
        """
        run_id = f"train-20260501-120000-{secrets.token_hex(4)}"
        layout = RunLayout(run_id)
        outputs = tuple(ProcessingOutput(path) for path in parameters.get("outputs", ()))
        description = AgentJob(
            run_id=run_id,
            job_name="train",
            kind=kind,
            entry_point="train.py",
            python="python3",
            checkpoints="/opt/ml/checkpoints",
            isolation="container",
            outputs=outputs,
            **(job or {}),
        )
        self.put(layout.agent, self._agent)
        self.put(layout.source, _source(script))
        self.put(layout.job, json.dumps({"version": VERSION, **asdict(description)}).encode())
        if environment:
            self.put(layout.environment, json.dumps(environment).encode())
        known = HostParameters(
            run_id=run_id,
            region=REGION,
            bucket=self.bucket,
            prefix=layout.prefix,
            kind=kind,
            agent_sha256=sha256(self._agent).hexdigest(),
            max_duration=600.0,
            instance_type="g5.xlarge",
            output=uri(self.bucket, layout.output),
            log_group=f"/gpuproof/{run_id}",
            pythons=(str(Path(sys.executable).parent),),
            driver_wait=60.0,
            gpus=1,
            retry_for=60.0,
            watch_interval=0.2,
        )
        return HostJob(self, layout, replace(known, **parameters))

    def put(self, key: str, content: bytes) -> str:
        """Put an object; returns its address."""
        self.emulator.client("s3").put_object(Bucket=self.bucket, Key=key, Body=content)
        return uri(self.bucket, key)

    def get(self, key: str) -> bytes | None:
        """An object's content; None if there is none."""
        client = self.emulator.client("s3")
        try:
            return client.get_object(Bucket=self.bucket, Key=key)["Body"].read()
        except client.exceptions.NoSuchKey:
            return None

    def assert_only_results_are_left(self) -> None:
        """The account has no resources, and below GPUproof's prefix only what instances read, report and upload."""
        ec2 = self.emulator.client("ec2")
        assert ec2.describe_instances()["Reservations"] == []
        assert ec2.describe_volumes()["Volumes"] == []
        assert {group["GroupName"] for group in ec2.describe_security_groups()["SecurityGroups"]} == {
            "default"
        }
        assert self.emulator.client("scheduler").list_schedules()["Schedules"] == []
        keys = self.keys("gpuproof/")
        assert [key for key in keys if not re.fullmatch(_OF_A_RUN, key)] == []

    def output(self, job: HostJob) -> str:
        """The job's output in CloudWatch Logs so far."""
        logs = self.emulator.client("logs")
        try:
            found = logs.get_log_events(
                logGroupName=job.parameters.log_group,
                logStreamName=f"{job.layout.run_id}/{job.host}",
                startFromHead=True,
            )
        except logs.exceptions.ResourceNotFoundException:
            return ""
        return "\n".join(event["message"] for event in found["events"])

    def keys(self, prefix: str) -> list[str]:
        """The keys below a prefix."""
        found = self.emulator.client("s3").list_objects_v2(Bucket=self.bucket, Prefix=prefix)
        return [item["Key"] for item in found.get("Contents", ())]


@dataclass
class HostJob:
    """One job.

    Args:
        jobs: its account.
        layout: its files.
        parameters: its host's.
    """

    jobs: HostJobs
    layout: RunLayout
    parameters: HostParameters
    host: str = field(default="algo-1")

    @property
    def emulator(self) -> RunningEmulator:
        """The account."""
        return self.jobs.emulator

    @property
    def user_data(self) -> str:
        """The script with which its instance boots."""
        return user_data(self.parameters)

    def report(self, name: str) -> dict[str, Any] | None:
        """A report of the host; None if there is none."""
        content = self.jobs.get(self.layout.host_file(self.host, name))
        return None if content is None else json.loads(content)

    @property
    def end(self) -> dict[str, Any]:
        """The last report of the host."""
        found = self.report("end.json")
        assert found is not None, f"no end.json, but {self.jobs.keys(self.layout.prefix)}"
        return found

    def archive(self, key: str) -> dict[str, bytes]:
        """The files in an archive."""
        content = self.jobs.get(key)
        assert content is not None, key
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            files = [member for member in archive.getmembers() if member.isfile()]
            return {member.name: archive.extractfile(member).read() for member in files}  # type: ignore[union-attr]


def _source(script: str) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        member = tarfile.TarInfo("train.py")
        member.size = len(script.encode())
        tar.addfile(member, io.BytesIO(script.encode()))
    return buffer.getvalue()
