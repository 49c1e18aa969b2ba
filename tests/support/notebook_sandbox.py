"""Plans and creates notebook instances on the emulator, and shows what exists afterwards."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gpuproof.backends.aws import Aws
from gpuproof.backends.progress import SubmitProgress
from gpuproof.backends.sagemaker.notebooks.changes import Notebook
from gpuproof.backends.sagemaker.notebooks.create import CreatedNotebook, create_notebook
from gpuproof.backends.sagemaker.notebooks.plan import NotebookPlan
from gpuproof.backends.sagemaker.notebooks.planner import plan_notebook
from gpuproof.backends.sagemaker.notebooks.wait import NotebookWaiter
from gpuproof.jobs.models.notebook import NotebookJob
from support.aws_emulator import REGION, RunningEmulator
from support.cli_sandbox import until
from support.sagemaker_sandbox import RecordingProgress

TYPE = "ml.g5.xlarge"


@dataclass
class NotebookSandbox:
    """What a test needs to create notebook instances; the account is empty at its start."""

    emulator: RunningEmulator
    cache: Path

    def __post_init__(self) -> None:
        self.aws = Aws(session=self.emulator.session, sleep=lambda _seconds: None, region=REGION)
        self.progress = RecordingProgress()

    def plan(self, name: str = "nb", *, idle: int | None = None, **keys: Any) -> NotebookPlan:
        """A plan; `idle` is shorter than the job file allows."""
        job = NotebookJob(name=name, instance_type=TYPE, role=self.emulator.role, **keys)
        plan = plan_notebook(self.aws, job, self.cache)
        # Tests cannot wait for five minutes.
        return plan if idle is None else replace(plan, script=replace(plan.script, idle_timeout=idle))

    def waiter(
        self, timeout: float = 300.0, progress: SubmitProgress | None = None, aws: Aws | None = None
    ) -> NotebookWaiter:
        return NotebookWaiter(aws or self.aws, progress or self.progress, timeout, lambda _: time.sleep(0.05))

    def create(
        self, plan: NotebookPlan, progress: SubmitProgress | None = None, **more: Any
    ) -> CreatedNotebook:
        progress = progress or self.progress
        return create_notebook(self.aws, plan, progress, self.waiter(progress=progress), **more)

    def notebook(self, name: str = "nb") -> Notebook:
        return Notebook(self.aws, name, self.waiter(), self.progress)

    def exists(self) -> dict[str, Any]:
        """Everything in the account that a creation makes."""
        api, s3 = self.emulator.client("sagemaker"), self.emulator.client("s3")
        configs = api.list_notebook_instance_lifecycle_configs()["NotebookInstanceLifecycleConfigs"]
        return {
            "notebooks": {
                instance["NotebookInstanceName"]: instance["NotebookInstanceStatus"]
                for instance in api.list_notebook_instances()["NotebookInstances"]
            },
            "configs": [config["NotebookInstanceLifecycleConfigName"] for config in configs],
            "objects": [
                item["Key"]
                for bucket in s3.list_buckets()["Buckets"]
                for item in s3.list_objects_v2(Bucket=bucket["Name"]).get("Contents", ())
            ],
        }

    def log(self, name: str = "nb") -> str:
        """What the watcher of a notebook instance has reported."""
        events, _ = self.aws.log_events("/aws/sagemaker/NotebookInstances", f"{name}/gpuproof")
        return "\n".join(event.message for event in events)

    def reaches(self, status: str) -> None:
        """Wait until the only notebook instance is in a state."""
        until(lambda: self.exists()["notebooks"] == {"nb": status}, f"the notebook instance {status}")

    def stays_in_service(self, seconds: float) -> None:
        """Look for longer than the idle timeout; nothing tells that something does not happen."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            assert self.exists()["notebooks"] == {"nb": "InService"}
            time.sleep(0.2)


NOTHING: dict[str, Any] = {"notebooks": {}, "configs": [], "objects": []}
