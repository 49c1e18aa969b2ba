"""Deployments for tests: a small model, the account that they leave behind, and what happens at each step."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from typing import Any

from gpuproof.backends.aws import Aws
from gpuproof.backends.remote.iam.policy import Scope, role_policy
from gpuproof.backends.sagemaker.endpoints.plan import EndpointPlan, ModelSource
from gpuproof.backends.sagemaker.endpoints.planner import EndpointPlanner
from gpuproof.backends.sagemaker.endpoints.server_files import IN_MODEL, server_files
from gpuproof.backends.sagemaker.endpoints.submit import Deployed, Deployment
from gpuproof.jobs.models.endpoint import EndpointJob
from gpuproof.serve.model.package import build
from support.aws_emulator import REGION
from support.sagemaker_sandbox import RecordingProgress, SageMakerSandbox

IMAGE = "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-inference:2.6.0-gpu-py312-cu124-ubuntu22.04-sagemaker"
ECHO = """
import json

def model_fn(model_dir):
    return "model"

def input_fn(body, content_type):
    return json.loads(body)

def predict_fn(data, model):
    return data

def output_fn(prediction, accept):
    return json.dumps(prediction)
"""
SCHEDULER_TRUST = {
    "Version": "2012-10-17",
    "Statement": [
        {"Effect": "Allow", "Principal": {"Service": "scheduler.amazonaws.com"}, "Action": "sts:AssumeRole"}
    ],
}


class EndpointSandbox:
    """One test's part of the emulated account."""

    def __init__(self, sandbox: SageMakerSandbox, name: str) -> None:
        self.sandbox = sandbox
        self.emulator = sandbox.emulator
        self.name = name
        self.cache = self.emulator.state.parent / "cache"
        self.client = self.emulator.client("sagemaker")
        self._built = 0

    def job(self, **keys: Any) -> EndpointJob:
        settings: dict[str, Any] = {
            "model": "model",
            "name": self.name,
            "instance_type": "ml.g5.xlarge",
            "role": self.emulator.role,
            "bucket": self.sandbox.bucket,
            "image": IMAGE,
            "require_gpu": False,
        }
        return EndpointJob(**{**settings, **keys})

    def packed(self, handler: str = ECHO, *, server: bool = True) -> ModelSource:
        self._built += 1
        folder = self.sandbox.folder / f"{self.name}-{self._built}"
        (folder / "code").mkdir(parents=True)
        (folder / "code" / "inference.py").write_text(handler)
        archive = folder.with_suffix(".tar.gz")
        files = server_files(self.cache) if server else {}
        build(folder, archive, {f"{IN_MODEL}/{name}": path for name, path in files.items()})
        return ModelSource(archive, None, "a model")

    def in_s3(self, handler: str = ECHO) -> ModelSource:
        archive = self.packed(handler, server=False).archive
        assert archive is not None
        key = f"elsewhere/{archive.name}"
        self.emulator.client("s3").upload_file(str(archive), self.sandbox.bucket, key)
        return ModelSource(None, f"s3://{self.sandbox.bucket}/{key}", "a model")

    def plan(self, model: ModelSource | None = None, **keys: Any) -> EndpointPlan:
        planner = EndpointPlanner(self.aws(), self.cache)
        return planner.plan(self.job(**keys), model or self.packed())

    def deploy(self, plan: EndpointPlan | None = None, progress: Any = None, **keys: Any) -> Deployed:
        return self.deployment(plan or self.plan(**keys), progress).run()

    def deployment(self, plan: EndpointPlan, progress: Any = None, aws: Aws | None = None) -> Deployment:
        return Deployment(plan, aws or self.aws(), progress or RecordingProgress(), sleep=self.sleep)

    def aws(self, session: Callable[[], Any] | None = None) -> Aws:
        return Aws(session=session or self.emulator.session, sleep=self.sleep, region=REGION)

    @staticmethod
    def sleep(seconds: float) -> None:
        """Waits a moment: the emulator's containers need real time."""
        time.sleep(min(seconds, 0.2))

    def left(self) -> list[str]:
        """Everything of this test's endpoint that exists."""
        found = [f"endpoint {item['EndpointName']}" for item in self._list("list_endpoints", "Endpoints")]
        configs = self._list("list_endpoint_configs", "EndpointConfigs")
        found += [f"config {config['EndpointConfigName']}" for config in configs]
        found += [f"model {item['ModelName']}" for item in self._list("list_models", "Models")]
        found += [f"file {key}" for key in sorted(self.sandbox.objects(f"gpuproof/endpoints/{self.name}-"))]
        schedules = self.emulator.client("scheduler").list_schedules(NamePrefix=f"gpuproof-{self.name}")
        found += [f"schedule {schedule['Name']}" for schedule in schedules["Schedules"]]
        scaling = self.emulator.client("application-autoscaling")
        targets = scaling.describe_scalable_targets(ServiceNamespace="sagemaker")["ScalableTargets"]
        mine = f"endpoint/{self.name}/"
        return found + [
            f"scaling {target['ResourceId']}" for target in targets if target["ResourceId"].startswith(mine)
        ]

    def serving(self) -> tuple[str, str]:
        """The endpoint's status and the name of its configuration."""
        found = self.client.describe_endpoint(EndpointName=self.name)
        return found["EndpointStatus"], found["EndpointConfigName"]

    def kinds_left(self) -> list[str]:
        return sorted({line.partition(" ")[0] for line in self.left()})

    def invoke(self, body: Any) -> Any:
        answer = self.emulator.client("sagemaker-runtime").invoke_endpoint(
            EndpointName=self.name, Body=json.dumps(body), ContentType="application/json"
        )
        return json.loads(answer["Body"].read())

    def schedule_role(self) -> str:
        iam = self.emulator.client("iam")
        name = f"scheduler-{self.name}"
        made = iam.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps(SCHEDULER_TRUST))
        policy = role_policy(Scope(backend="scheduler"))
        iam.put_role_policy(RoleName=name, PolicyName="gpuproof", PolicyDocument=json.dumps(policy))
        return made["Role"]["Arn"]

    def log(self) -> str:
        """Everything that the endpoint's containers printed."""
        logs = self.emulator.client("logs")
        group = f"/aws/sagemaker/Endpoints/{self.name}"
        events = logs.filter_log_events(logGroupName=group)["events"]
        return "\n".join(event["message"] for event in events)

    def _list(self, operation: str, member: str) -> list[dict[str, Any]]:
        return getattr(self.client, operation)(NameContains=self.name)[member]


def waits_for(gate: socket.socket) -> str:
    """A handler whose model is loaded when the gate, a listener, is closed."""
    address = gate.getsockname()
    load = f"""
    import contextlib, socket
    with contextlib.suppress(OSError):
        socket.create_connection({address}).recv(1)
    return "model"
"""
    return ECHO.replace('    return "model"\n', load)
