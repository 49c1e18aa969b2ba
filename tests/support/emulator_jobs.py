"""Jobs for an emulator: small requests, waiting for their end, and their outputs."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from support.aws_emulator import RunningEmulator
from support.cli_sandbox import until

IMAGE = "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.8-gpu-py312"

TWO_HOSTS = {"InstanceType": "ml.g5.xlarge", "InstanceCount": 2, "VolumeSizeInGB": 30}
"""A `ResourceConfig`."""


@dataclass
class Account:
    """One test's part of an emulated account.

    Args:
        emulator: the emulator.
        bucket: the test's bucket.
        prefix: of the names of the test's jobs.
    """

    emulator: RunningEmulator
    bucket: str
    prefix: str
    _count: int = field(default=0)

    def client(self, service: str, **options: Any) -> Any:
        return self.emulator.client(service, **options)

    def put(self, key: str, content: str | bytes = "x") -> str:
        """Put an object; returns its address."""
        body = content.encode() if isinstance(content, str) else content
        self.client("s3").put_object(Bucket=self.bucket, Key=key, Body=body)
        return f"s3://{self.bucket}/{key}"

    def get(self, key: str) -> str:
        """An object's content."""
        return self.client("s3").get_object(Bucket=self.bucket, Key=key)["Body"].read().decode()

    def keys(self, prefix: str = "") -> list[str]:
        """The bucket's keys."""
        found = self.client("s3").list_objects_v2(Bucket=self.bucket, Prefix=prefix)
        return [item["Key"] for item in found.get("Contents", ())]

    def archive(self, key: str) -> dict[str, str]:
        """The files in a .tar.gz of the bucket."""
        body = self.client("s3").get_object(Bucket=self.bucket, Key=key)["Body"].read()
        with tarfile.open(fileobj=io.BytesIO(body)) as archive:
            files = [member for member in archive.getmembers() if member.isfile()]
            return {member.name: archive.extractfile(member).read().decode() for member in files}

    def name(self) -> str:
        """A unique name for a job."""
        self._count += 1
        return f"{self.prefix}-{self._count}"

    def training(self, script: str, /, **changes: Any) -> dict[str, Any]:
        """A request for a training job that runs a shell script."""
        request: dict[str, Any] = {
            "TrainingJobName": self.name(),
            "RoleArn": self.emulator.role,
            "AlgorithmSpecification": {
                "TrainingImage": IMAGE,
                "TrainingInputMode": "File",
                "ContainerEntrypoint": ["/bin/sh", "-c", script],
            },
            "OutputDataConfig": {"S3OutputPath": f"s3://{self.bucket}/out"},
            "ResourceConfig": {"InstanceType": "ml.g5.xlarge", "InstanceCount": 1, "VolumeSizeInGB": 30},
            "StoppingCondition": {"MaxRuntimeInSeconds": 3600},
        }
        return {**request, **changes}

    def train(self, script: str, /, **changes: Any) -> str:
        """Start a training job; returns its name."""
        request = self.training(script, **changes)
        self.client("sagemaker").create_training_job(**request)
        return request["TrainingJobName"]

    def trained(self, script: str, /, **changes: Any) -> dict[str, Any]:
        """Run a training job to its end; returns the output of Describe."""
        return self.ended(self.train(script, **changes))

    def job(self, name: str) -> dict[str, Any]:
        """The output of Describe for a training job."""
        return self.client("sagemaker").describe_training_job(TrainingJobName=name)

    def ended(self, name: str) -> dict[str, Any]:
        """Wait for the end of a training job; returns the output of Describe."""

        def poll() -> dict[str, Any] | None:
            job = self.job(name)
            return job if job["TrainingJobStatus"] not in ("InProgress", "Stopping") else None

        return until(poll, f"the end of {name}", 600.0)

    def in_state(self, name: str, status: str) -> dict[str, Any]:
        """Wait until a training job has a secondary status; returns the output of Describe."""
        return until(lambda: (job := self.job(name))["SecondaryStatus"] == status and job, f"{name} {status}")

    def processing(self, script: str, /, **changes: Any) -> dict[str, Any]:
        """A request for a processing job that runs a shell script."""
        request: dict[str, Any] = {
            "ProcessingJobName": self.name(),
            "RoleArn": self.emulator.role,
            "AppSpecification": {"ImageUri": IMAGE, "ContainerEntrypoint": ["/bin/sh", "-c", script]},
            "ProcessingResources": {
                "ClusterConfig": {
                    "InstanceType": "ml.g5.xlarge",
                    "InstanceCount": 1,
                    "VolumeSizeInGB": 30,
                }
            },
            "StoppingCondition": {"MaxRuntimeInSeconds": 3600},
        }
        return {**request, **changes}

    def processed(self, script: str, /, **changes: Any) -> dict[str, Any]:
        """Run a processing job to its end; returns the output of Describe."""
        request = self.processing(script, **changes)
        self.client("sagemaker").create_processing_job(**request)
        return self.processing_ended(request["ProcessingJobName"])

    def processing_ended(self, name: str) -> dict[str, Any]:
        """Wait for the end of a processing job; returns the output of Describe."""
        client = self.client("sagemaker")

        def poll() -> dict[str, Any] | None:
            job = client.describe_processing_job(ProcessingJobName=name)
            return job if job["ProcessingJobStatus"] not in ("InProgress", "Stopping") else None

        return until(poll, f"the end of {name}", 600.0)

    def log(self, job: str, host: str = "algo-1", group: str = "TrainingJobs") -> list[str]:
        """The lines of the newest log of a job's host."""
        logs = self.client("logs")
        where = f"/aws/sagemaker/{group}"
        found = logs.describe_log_streams(logGroupName=where, logStreamNamePrefix=f"{job}/{host}-")
        lines: list[str] = []
        token: dict[str, str] = {}
        stream = found["logStreams"][-1]["logStreamName"]
        while True:
            page = logs.get_log_events(logGroupName=where, logStreamName=stream, startFromHead=True, **token)
            if not page["events"]:
                return lines
            lines += [event["message"] for event in page["events"]]
            token = {"nextToken": page["nextForwardToken"]}


def channel(name: str, uri: str, **changes: Any) -> dict[str, Any]:
    """One input channel; `S3DataType`, `S3DataDistributionType` and the like become members of its source."""
    source = {key: changes.pop(key) for key in list(changes) if key.startswith("S3")}
    where = {"S3DataType": "S3Prefix", "S3Uri": uri, **source}
    return {"ChannelName": name, "DataSource": {"S3DataSource": where}, **changes}


def secondary(job: Mapping[str, Any]) -> list[str]:
    """The secondary statuses of a training job, in order."""
    return [step["Status"] for step in job["SecondaryStatusTransitions"]]


def metric(job: Mapping[str, Any]) -> dict[str, float]:
    """A job's final metrics."""
    found: Sequence[Mapping[str, Any]] = job.get("FinalMetricDataList", ())
    return {item["MetricName"]: item["Value"] for item in found}
