"""A folder with a job, and the emulator to run it in: for tests of planning and submitting."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from gpuproof.backends.aws import Aws
from gpuproof.backends.progress import SubmitProgress
from gpuproof.backends.sagemaker.backend import SageMakerBackend
from gpuproof.backends.sagemaker.plan import SageMakerPlan
from gpuproof.backends.sagemaker.submission.submission import Submitted, submit_once
from gpuproof.catalogue import Catalogue
from gpuproof.jobs.models.script_jobs import Job, ProcessingJob, TrainingJob
from support.aws_emulator import REGION, RunningEmulator

SCRIPT = "import sys\nprint('it runs', *sys.argv[1:])\nopen('/opt/ml/model/w', 'w').write('w')\n"


class SandboxBackend(SageMakerBackend):
    """The backend, with single submissions for tests; it does not wait."""

    def submit_once(self, plan: SageMakerPlan, progress: SubmitProgress | None = None) -> Submitted:
        return submit_once(plan, self.aws, Catalogue.load(), progress, sleep=lambda _seconds: None)


class SageMakerSandbox:
    """What a test needs to plan and submit.

    Args:
        emulator: answers.
        folder: has `train.py` and `data/`.
        bucket: to use.
    """

    def __init__(self, emulator: RunningEmulator, folder: Path, bucket: str) -> None:
        self.emulator = emulator
        self.folder = folder
        self.bucket = bucket
        self.slept: list[float] = []
        self.aws = self.client()
        source = folder / "src"
        source.mkdir()
        (source / "train.py").write_text(SCRIPT)
        (folder / "data").mkdir()
        (folder / "data" / "a.csv").write_text("1,2\n")
        (folder / "data" / "deep").mkdir()
        (folder / "data" / "deep" / "b.csv").write_text(str(folder))

    def client(self, kind: type[Aws] = Aws, region: str = REGION) -> Aws:
        """A client that does not wait."""
        return kind(session=self._session, sleep=self.slept.append, region=region)

    def backend(self, aws: Aws | None = None) -> SandboxBackend:
        # One cache for all tests: building the agent's file takes half a second.
        cache = self.emulator.state.parent / "cache"
        return SandboxBackend(aws or self.aws, cache=cache, sleep=lambda _seconds: None)

    def training(self, **keys: Any) -> TrainingJob:
        return TrainingJob(**self._keys("train.py", keys)).with_absolute_paths(self.folder)

    def processing(self, **keys: Any) -> ProcessingJob:
        return ProcessingJob(**self._keys("train.py", keys)).with_absolute_paths(self.folder)

    def run(self, job: Job) -> Any:
        """Plan, submit and wait; the final record."""
        backend = self.backend()
        return backend.submit_once(backend.plan(job)).run.wait()

    def objects(self, prefix: str = "", bucket: str | None = None) -> set[str]:
        """Keys in the bucket."""
        pages = self.emulator.client("s3").get_paginator("list_objects_v2")
        found = pages.paginate(Bucket=bucket or self.bucket, Prefix=prefix)
        return {item["Key"] for page in found for item in page.get("Contents", ())}

    def jobs(self, status: str | None = None) -> list[str]:
        """Names of training jobs, the newest first."""
        more = {"StatusEquals": status} if status else {}
        answer = self.emulator.client("sagemaker").list_training_jobs(
            SortBy="CreationTime", SortOrder="Descending", MaxResults=100, **more
        )
        return [item["TrainingJobName"] for item in answer["TrainingJobSummaries"]]

    def _keys(self, script: str, keys: dict[str, Any]) -> dict[str, Any]:
        settings = {"bucket": self.bucket, "role": self.emulator.role, **keys.pop("sagemaker", {})}
        return {
            "entry_point": script,
            "name": "small",
            "source_dir": "src",
            "image": "123456789012.dkr.ecr.us-east-1.amazonaws.com/mine:1",
            "instance_type": "ml.m5.xlarge",
            "max_duration": "1h",
            "sagemaker": settings,
            **keys,
        }

    def _session(self) -> Any:
        return self.emulator.session()


@contextlib.contextmanager
def injected_faults(emulator: RunningEmulator, *faults: str) -> Iterator[None]:
    """These faults, until the end of the context."""
    emulator.faults(*faults)
    try:
        yield
    finally:
        emulator.faults()


class RecordingProgress:
    """A progress that records everything, and may do something at each step."""

    def __init__(self, at_step: Callable[[int], None] | None = None) -> None:
        self.steps: list[str] = []
        self.notes: list[str] = []
        self.sent: list[tuple[str, int, int]] = []
        self._at_step = at_step

    def step(self, text: str) -> None:
        self.steps.append(text)
        if self._at_step is not None:
            self._at_step(len(self.steps))

    def transfer(self, text: str, done: int, total: int) -> None:
        self.sent.append((text, done, total))

    def report(self, label: str, text: str) -> None:
        assert label == "note"
        self.notes.append(text)

    def hold_interrupt(self) -> None:
        raise AssertionError("a submission to SageMaker may be interrupted at any time")
