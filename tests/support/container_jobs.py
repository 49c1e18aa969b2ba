"""Jobs with the real agent in their container, created by plain boto3 as `gpuproof run --on sagemaker` would."""

from __future__ import annotations

import io
import json
import secrets
import tarfile
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from gpuproof.agent.job import AgentJob, ProcessingOutput
from gpuproof.agent.state import VERSION
from gpuproof.backends.agent_job.archive import build_agent
from support.aws_emulator import RunningEmulator

IMAGE = "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.8-gpu-py312"


class Jobs:
    """Creates jobs on an emulator.

    Args:
        emulator: the emulator.
        folder: for the agent's file.
    """

    def __init__(self, emulator: RunningEmulator, folder: Path) -> None:
        self.emulator = emulator
        self.bucket = emulator.bucket("gpuproof-runs")
        agent = folder / "gpuproof-agent.pyz"
        build_agent(agent)
        self._agent = agent.read_bytes()
        self._count = 0

    def start(
        self,
        script: str,
        *,
        kind: Literal["training", "processing"] = "training",
        name: str = "train",
        hosts: int = 1,
        output: str | None = None,
        tags: dict[str, str] | None = None,
        instance: str = "ml.g5.xlarge",
        send: bool = True,
        **request: Any,
    ) -> str:
        """Create a job that runs a script; its id. `send`: whether it needs its code, since it will run."""
        self._count += 1
        run_id = f"{name}-20260501-12{self._count // 60:02}{self._count % 60:02}-{secrets.token_hex(2)}"
        if send:
            self._send(run_id, kind, name, script)
        else:
            # AWS rejects a job whose channel has no objects.
            key = f"gpuproof/runs/{run_id}/code/empty"
            self.emulator.client("s3").put_object(Bucket=self.bucket, Key=key)
        known = {
            "gpuproof:run": run_id,
            "gpuproof:job": name,
            "gpuproof:kind": kind,
            "gpuproof:bucket": self.bucket,
            "gpuproof:instance": f"{hosts} x {instance}" if hosts > 1 else instance,
            "gpuproof:require-gpu": "false",
            **(tags or {}),
        }
        asked = {"Tags": [{"Key": key, "Value": value} for key, value in known.items()], **request}
        place = output or f"s3://{self.bucket}/gpuproof/runs/{run_id}/output/"
        if kind == "training":
            self._train(run_id, hosts, instance, place, asked)
        else:
            self._process(run_id, hosts, instance, place, asked)
        return run_id

    def _train(self, run_id: str, hosts: int, instance: str, output: str, more: dict[str, Any]) -> None:
        source = {
            "S3DataType": "S3Prefix",
            "S3Uri": f"s3://{self.bucket}/gpuproof/runs/{run_id}/code/",
            "S3DataDistributionType": "FullyReplicated",
        }
        request = {
            "TrainingJobName": run_id,
            "AlgorithmSpecification": {
                "TrainingImage": IMAGE,
                "TrainingInputMode": "File",
                "ContainerEntrypoint": _command("/opt/ml/input/data/code"),
            },
            "RoleArn": self.emulator.role,
            "InputDataConfig": [{"ChannelName": "code", "DataSource": {"S3DataSource": source}}],
            "OutputDataConfig": {"S3OutputPath": output},
            "ResourceConfig": {"InstanceType": instance, "InstanceCount": hosts, "VolumeSizeInGB": 30},
            "StoppingCondition": {"MaxRuntimeInSeconds": 3600},
        }
        self.emulator.client("sagemaker").create_training_job(**request | more)

    def _process(self, run_id: str, hosts: int, instance: str, output: str, more: dict[str, Any]) -> None:
        runs = f"s3://{self.bucket}/gpuproof/runs/{run_id}"
        entry = {
            "InputName": "gpuproof",
            "S3Input": {
                "S3Uri": f"{runs}/code/",
                "LocalPath": "/opt/ml/processing/gpuproof",
                "S3DataType": "S3Prefix",
                "S3InputMode": "File",
            },
        }
        outputs = [
            _output("rows", "/opt/ml/processing/rows", f"{output}rows/", "EndOfJob"),
            _output("gpuproof", "/opt/ml/processing/gpuproof-out", f"{runs}/verdict/", "Continuous"),
        ]
        cluster = {"InstanceType": instance, "InstanceCount": hosts, "VolumeSizeInGB": 30}
        request = {
            "ProcessingJobName": run_id,
            "RoleArn": self.emulator.role,
            "AppSpecification": {
                "ImageUri": IMAGE,
                "ContainerEntrypoint": _command("/opt/ml/processing/gpuproof"),
            },
            "ProcessingInputs": [entry],
            "ProcessingOutputConfig": {"Outputs": outputs},
            "ProcessingResources": {"ClusterConfig": cluster},
        }
        self.emulator.client("sagemaker").create_processing_job(**request | more)

    def _send(self, run_id: str, kind: str, name: str, script: str) -> None:
        """Fill the code channel."""
        order = AgentJob(
            run_id=run_id,
            job_name=name,
            kind=kind,
            entry_point="train.py",
            python="python3",
            checkpoints="/opt/ml/checkpoints",
            isolation="container",
            outputs=(ProcessingOutput("processing/rows"),) if kind == "processing" else (),
        )
        job = json.dumps({"version": VERSION, **asdict(order)}).encode()
        files = {"gpuproof-agent.pyz": self._agent, "source.tar.gz": _source(script), "job.json": job}
        for file, content in files.items():
            key = f"gpuproof/runs/{run_id}/code/{file}"
            self.emulator.client("s3").put_object(Bucket=self.bucket, Key=key, Body=content)


def _command(folder: str) -> list[str]:
    return ["python3", f"{folder}/gpuproof-agent.pyz", "--container", folder]


def _output(name: str, path: str, uri: str, mode: str) -> dict[str, Any]:
    return {"OutputName": name, "S3Output": {"S3Uri": uri, "LocalPath": path, "S3UploadMode": mode}}


def _source(script: str) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        member = tarfile.TarInfo("train.py")
        member.size = len(script.encode())
        tar.addfile(member, io.BytesIO(script.encode()))
    return buffer.getvalue()
