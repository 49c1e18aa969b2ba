"""Running a job from Python: `gpuproof.run(job, on="local")`, `gpuproof.run(job, on="sagemaker")`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal, overload

from gpuproof.backends.base import LOCAL, SAGEMAKER, Output, Run
from gpuproof.errors import UsageError
from gpuproof.jobs.local_paths import resolve_paths
from gpuproof.jobs.spec import Job

if TYPE_CHECKING:
    from gpuproof.backends.local.run import LocalRun
    from gpuproof.backends.sagemaker.run import SageMakerRun


@overload
def run(
    job: Job,
    on: Literal["local"] = "local",
    *,
    wait: bool = True,
    logs: BinaryIO | None = None,
    python: str | None = None,
    fresh: bool = False,
) -> LocalRun: ...
@overload
def run(
    job: Job,
    on: Literal["sagemaker"],
    *,
    wait: bool = True,
    logs: BinaryIO | None = None,
    python: None = None,
    fresh: bool = False,
) -> SageMakerRun: ...
def run(
    job: Job,
    on: str = LOCAL,
    *,
    wait: bool = True,
    logs: BinaryIO | None = None,
    python: str | None = None,
    fresh: bool = False,
) -> LocalRun | SageMakerRun:
    """Run a job.

    Args:
        job: a `TrainingJob` or a `ProcessingJob`; relative paths are taken from the working directory.
        on: the place; `local` is this machine, `sagemaker` the account and region of the AWS configuration.
        wait: return when the run has ended, and results are in the local folders that the job names; else as soon as it
            is on its way.
        logs: where the script's output goes while waiting; standard output if not given.
        python: the script's interpreter on this machine; the one that runs this if not given.
        fresh: begin without an earlier run's checkpoints.

    Returns:
        The run: `record.status`, `record.outcome`, `verdict`, `artifacts()`, `pull(folder)`.

    Raises:
        GPUproofError: the job cannot run there.
    """
    anchored = resolve_paths(job, Path.cwd())
    sink = logs or sys.stdout.buffer
    if on == SAGEMAKER:
        if python is not None:
            raise UsageError(
                "On SageMaker the container image decides the interpreter.", remedy="Leave python out."
            )
        return _on_sagemaker(anchored, wait, sink, fresh)
    if on != LOCAL:
        raise UsageError(f"There is no place called '{on}'.", remedy=f'on="{LOCAL}" or on="{SAGEMAKER}"')
    from gpuproof.backends.local.backend import LocalPlace

    started = LocalPlace().submit(anchored, python=python, fresh=fresh)
    if wait:
        _followed(started, sink)
    return started


def _on_sagemaker(job: Job, wait: bool, sink: BinaryIO, fresh: bool) -> SageMakerRun:
    # boto3 is for runs on AWS alone.
    from gpuproof.backends.aws import Aws
    from gpuproof.backends.sagemaker.backend import SageMakerPlace
    from gpuproof.backends.sagemaker.plan import wanted_here
    from gpuproof.backends.sagemaker.submission.fallbacks import attempts
    from gpuproof.backends.sagemaker.tracking.progress import Unwatched

    class Told(Unwatched):
        def note(self, text: str) -> None:
            print(f"gpuproof: {text}", file=sys.stderr)

    place, watch = SageMakerPlace(Aws(region=job.resources.region)), Told()
    plan = place.plan(job, fresh=fresh)
    # What is made besides the job, and what it may cost, is said before.
    for note in plan.notes:
        watch.note(note)
    if not wait:
        return place.submit(plan, watch).run
    started = None
    for started in attempts(place, plan, watch):
        _followed(started.run, sink)
    assert started is not None
    output, outputs = wanted_here(plan.job)
    if output is not None or outputs:
        started.run.deliver(output, outputs)
    return started.run


def _followed(run: Run, sink: BinaryIO) -> None:
    try:
        for event in run.follow():
            if isinstance(event, Output):
                sink.write(event.content)
                sink.flush()
    except KeyboardInterrupt:
        run.stop()
        run.wait()
        raise
