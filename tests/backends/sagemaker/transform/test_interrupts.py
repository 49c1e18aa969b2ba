"""Ctrl-C and SIGTERM during a batch transform job, on the emulator over HTTP; `test_transaction.py` has every moment."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpuproof.backends.aws import Aws
from gpuproof.backends.interrupts import sigterm_interrupts
from gpuproof.backends.sagemaker.endpoints.plan import ModelSource
from gpuproof.backends.sagemaker.transform.job import TransformExecution
from gpuproof.backends.sagemaker.transform.plan import TransformPlan, plan_transform
from gpuproof.catalogue import Catalogue
from gpuproof.jobs.models.transform import TransformJob
from support.archives import archive
from support.aws_emulator import REGION
from support.emulator_models import SERVING_IMAGE
from support.interrupting_session import interrupted_after
from support.sagemaker_sandbox import SageMakerSandbox
from support.transform_sandbox import HANDLER

pytestmark = pytest.mark.slow


class Transforms:
    """One test's part of the emulated account."""

    def __init__(self, sandbox: SageMakerSandbox, tmp_path: Path) -> None:
        self.sandbox = sandbox
        self.client = sandbox.emulator.client("sagemaker")
        self.folder = tmp_path
        self.notes: list[str] = []

    def aws(self, session: Callable[[], Any] | None = None) -> Aws:
        return Aws(session=session or self.sandbox.emulator.session, sleep=self.sleep, region=REGION)

    def plan(self) -> TransformPlan:
        """A job with a model and data that are uploaded for it, whose handler takes 100 s."""
        model = self.folder / "model.tar.gz"
        model.write_bytes(archive(**{"code/inference.py": HANDLER.encode()}))
        (self.folder / "rows").mkdir()
        (self.folder / "rows" / "x.csv").write_text("wait\n")
        options = TransformJob(
            model="m",
            input=str(self.folder / "rows"),
            output=f"s3://{self.sandbox.bucket}/out",
            instance_type="ml.g5.xlarge",
            image=SERVING_IMAGE,
            server="image",
            role=self.sandbox.emulator.role,
            bucket=self.sandbox.bucket,
        )
        source = ModelSource(model, None, "a model")
        return plan_transform(self.aws(), Catalogue.load(), options, self.sandbox.bucket, source)

    def run(self, plan: TransformPlan, aws: Aws) -> None:
        with TransformExecution(aws, plan, self.sleep, self.notes.append) as job:
            job.create()
            job.follow(lambda _line: None, lambda _status: None)

    def left(self) -> list[str]:
        """What exists of the job but the job itself, which SageMaker keeps, and its status."""
        name = self.sandbox.bucket
        models = self.client.list_models(NameContains=name)["Models"]
        jobs = self.client.list_transform_jobs(NameContains=name)["TransformJobSummaries"]
        return [
            *(model["ModelName"] for model in models),
            *sorted(self.sandbox.objects()),
            *(job["TransformJobStatus"] for job in jobs if job["TransformJobStatus"] != "Stopped"),
        ]

    @staticmethod
    def sleep(seconds: float) -> None:
        """Waits a moment: the emulator's containers need real time."""
        time.sleep(min(seconds, 0.2))


@pytest.fixture
def transforms(sandbox: SageMakerSandbox, tmp_path: Path) -> Transforms:
    return Transforms(sandbox, tmp_path)


@pytest.mark.parametrize(
    ("operation", "number"),
    [("CreateTransformJob", signal.SIGTERM), ("DescribeTransformJob", signal.SIGINT)],
)
def test_an_interrupt_when_aws_has_done_what_was_requested_leaves_nothing(
    transforms: Transforms, operation: str, number: int
) -> None:
    plan = transforms.plan()
    aws = transforms.aws(interrupted_after(transforms.sandbox.emulator.session, operation, number))
    with sigterm_interrupts(), pytest.raises(KeyboardInterrupt):
        transforms.run(plan, aws)
    assert transforms.left() == []
    assert not [note for note in transforms.notes if note.startswith("not done")]


def test_a_lost_response_of_the_creation_leaves_nothing(transforms: Transforms) -> None:
    plan = transforms.plan()
    transforms.sandbox.emulator.faults("drop,operation=CreateTransformJob,when=after,count=10")
    with pytest.raises(Exception, match="CreateTransformJob"):
        transforms.run(plan, transforms.aws())
    transforms.sandbox.emulator.faults()
    assert transforms.left() == []
