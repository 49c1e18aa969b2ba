"""Real jobs on an emulator that is started once."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from gpuproof.backends.aws import Aws
from gpuproof.backends.base import Output
from gpuproof.backends.sagemaker.run import SageMakerRun
from support.aws_emulator import RunningEmulator, running_emulator
from support.container_jobs import Jobs

_HURRY = 10
_FOREVER = "import time\nprint('ready', flush=True)\ntime.sleep(600)\n"


class SageMakerSandbox:
    """Jobs and the runs that look at them; for these, time goes ten times as fast."""

    def __init__(self, emulator: RunningEmulator, jobs: Jobs) -> None:
        self.emulator = emulator
        self.jobs = jobs
        self.aws = Aws(sleep=fast_sleep)

    def start(self, script: str, **options: object) -> SageMakerRun:
        """Start a job."""
        kind = "processing" if options.get("kind") == "processing" else "training"
        return self.look_at(self.jobs.start(script, **options), kind)  # type: ignore[arg-type]

    def look_at(self, run_id: str, kind: str = "training") -> SageMakerRun:
        """A job as another machine would look at it: nothing is remembered."""
        return SageMakerRun(self.aws, run_id, kind, clock=fast_clock, sleep=fast_sleep)  # type: ignore[arg-type]

    def ended(self, script: str, **options: object) -> SageMakerRun:
        """A job that has ended, as another machine looks at it."""
        run = self.start(script, **options)
        run.wait()
        return self.look_at(run.id, run.kind)

    def keys(self, prefix: str = "", bucket: str | None = None) -> list[str]:
        """The keys of the runs' bucket, or of another."""
        return sorted(item.key for item in self.aws.list_objects(bucket or self.jobs.bucket, prefix))


def fast_sleep(seconds: float) -> None:
    time.sleep(seconds / _HURRY)


def fast_clock() -> float:
    return time.monotonic() * _HURRY


@pytest.fixture(scope="session")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningEmulator]:
    with running_emulator(tmp_path_factory.mktemp("runs"), stop_grace=30.0) as running:
        yield running


@pytest.fixture(scope="session")
def jobs(emulator: RunningEmulator, tmp_path_factory: pytest.TempPathFactory) -> Jobs:
    return Jobs(emulator, tmp_path_factory.mktemp("agent"))


@pytest.fixture
def aws(emulator: RunningEmulator, jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> Iterator[SageMakerSandbox]:
    """The emulator is this process's AWS; faults last for one test."""
    for name in ("AWS_PROFILE", "AWS_REGION", "AWS_SESSION_TOKEN", "HTTP_PROXY", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    for name, value in emulator.credentials.items():
        monkeypatch.setenv(name, value)
    emulator.faults()
    yield SageMakerSandbox(emulator, jobs)
    emulator.faults()


@pytest.fixture
def running(aws: SageMakerSandbox) -> Iterator[SageMakerRun]:
    """A running job, which is stopped after the test."""
    run = aws.start(_FOREVER)
    next(event for event in run.follow() if isinstance(event, Output))
    yield run
    aws.emulator.faults()
    run.stop()
