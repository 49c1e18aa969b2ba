"""Runs batch transform jobs: `gpuproof transform`, and `gpuproof.transform` in Python."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal, overload

from gpuproof.app.endpoints.model_source import FoundModel, find_model
from gpuproof.app.python_reporter import PythonReporter
from gpuproof.app.session import aws_client
from gpuproof.backends.aws import AwsRefused
from gpuproof.backends.aws.unknown_account import UnknownAccount
from gpuproof.backends.display import Displayed
from gpuproof.backends.interrupts import sigterm_interrupts
from gpuproof.backends.remote.run_id import new_run_id
from gpuproof.backends.sagemaker.endpoints.plan import ModelSource
from gpuproof.backends.sagemaker.transform.job import TransformEnd, TransformExecution
from gpuproof.backends.sagemaker.transform.plan import TransformPlan, plan_transform
from gpuproof.catalogue import Catalogue
from gpuproof.errors import UsageError
from gpuproof.settings import cache_dir
from gpuproof.util.humanize import format_duration, format_usd

if TYPE_CHECKING:
    from gpuproof.backends.aws import Aws
    from gpuproof.backends.progress import SubmitProgress
    from gpuproof.jobs.models.transform import TransformJob


@dataclass(frozen=True, repr=False)
class TransformRun(Displayed):
    """A batch transform job that was created.

    Args:
        plan: what was decided about it.
        end: how it ended; None if it was not waited for.
        stop: the command that stops it, and deletes what was created for it.
    """

    plan: TransformPlan
    end: TransformEnd | None
    stop: str

    @property
    def name(self) -> str:
        """The job."""
        return self.plan.name

    @property
    def status(self) -> str:
        """`Completed`, `Failed` or `Stopped`; `InProgress` of a job that was not waited for."""
        return "InProgress" if self.end is None else self.end.status

    @property
    def stays(self) -> tuple[str, ...]:
        """What was created for a job that was not waited for, and is still there."""
        if self.end is not None:
            return ()
        created = (("model", self.plan.creates_model), ("uploaded files", self.plan.uploads_files))
        return tuple(what for what, is_created in created if is_created)

    @property
    def title(self) -> str:
        """The job and its status."""
        return f"batch transform job {self.name}: {self.status}"

    @property
    def cost(self) -> str | None:
        """What the instances cost, and for what; None if they did not start."""
        if self.end is None or self.end.seconds is None:
            return None
        cost = "price unknown" if self.end.cost is None else format_usd(self.end.cost)
        count = f"{self.plan.job.instance_count} x " if self.plan.job.instance_count > 1 else ""
        return f"{cost}: {format_duration(self.end.seconds)} of {count}{self.plan.job.instance_type}"

    def describe(self) -> list[tuple[str, str]]:
        """The job for the user: labels and texts."""
        lines = [("job", f"{self.name}: {self.status}"), ("results", self.plan.job.output)]
        if self.end is None:
            return [*lines, ("stop", self.stop)]
        if self.end.reason:
            lines.append(("reason", self.end.reason))
        return [*lines, *([("cost", self.cost)] if self.cost else [])]

    def to_json(self) -> dict[str, Any]:
        """The JSON form of `gpuproof transform --format json`."""
        document = {
            "version": 1,
            "name": self.name,
            "region": self.plan.region,
            "output": self.plan.job.output,
            "status": self.status,
        }
        if self.end is None:
            return document
        return {
            **document,
            "reason": self.end.reason or None,
            "billed_seconds": self.end.seconds,
            "cost_usd": self.end.cost,
        }


@overload
def transform(
    job: TransformJob, *, wait: bool = True, dry_run: Literal[False] = False, profile: str | None = None
) -> TransformRun: ...
@overload
def transform(job: TransformJob, *, dry_run: Literal[True], profile: str | None = None) -> TransformPlan: ...
def transform(
    job: TransformJob, *, wait: bool = True, dry_run: bool = False, profile: str | None = None
) -> TransformRun | TransformPlan:
    """Run a model over files in S3 or on this machine, as `gpuproof transform` does.

    What is created for the job is deleted at its end. Ctrl-C, the stop button of a notebook and SIGTERM stop the job.

    Args:
        job: the job; relative paths are relative to the working directory.
        wait: print the container's log, and return when the job has ended; otherwise return when it has started.
        dry_run: create nothing, and return the plan: `print(plan)`, `plan.calls`.
        profile: the AWS profile; `AWS_PROFILE`, or the default profile, if not given.

    Raises:
        GPUproofError: the job cannot be created. That of a job that has failed is in the result: `status`, `end.reason`.
    """
    reporter = PythonReporter()
    aws = aws_client(job.region, profile, dry_run=dry_run)
    with planned_transform(job, aws, reporter) as plan:
        if dry_run:
            return plan
        return run_transform(plan, aws, reporter, wait=wait, on_line=print)


@contextmanager
def planned_transform(
    job: TransformJob, aws: Aws, reporter: SubmitProgress, on: str | None = None
) -> Generator[TransformPlan]:
    """Context with the plan of a job; files that are packed for it exist until its end.

    Args:
        on: the backend of the run that made the model; all backends if None.
    """
    # Not `temporary_folder`, whose SIGTERM handler exits: SIGTERM must stop the job.
    with sigterm_interrupts(), TemporaryDirectory(prefix="gpuproof-transform-") as scratch:
        found = _find_model(job, aws, Path(scratch), on)
        name = job.name or new_run_id(job.model if found is None else found.name)
        source, framework = (None, None) if found is None else (found.source, found.framework)
        plan = plan_transform(aws, Catalogue.load(), job, name, source, framework)
        for warning in plan.warnings:
            reporter.report("note", warning)
        yield plan


def run_transform(
    plan: TransformPlan,
    aws: Aws,
    reporter: SubmitProgress,
    *,
    wait: bool,
    on_line: Callable[[str], None],
) -> TransformRun:
    """Create a job and, if it is waited for, follow it and delete what was created for it.

    Args:
        on_line: called with each line of the container's log.
    """
    stop = f"gpuproof stop {plan.name}{aws.region_flag}"
    execution = TransformExecution(
        aws, plan, notify=lambda text: reporter.report("note", text), transfer=reporter.transfer
    )
    with execution:
        execution.create()
        if not wait:
            return TransformRun(plan, None, stop)
        if plan.price is not None:
            hourly = format_usd(plan.price.usd_per_hour * plan.job.instance_count)
            reporter.step(f"{plan.name}: {hourly} per hour while it runs; Ctrl-C stops it")
        end = execution.follow(on_line, lambda status: reporter.step(f"{plan.name}: {status}"))
        return TransformRun(plan, end, stop)


def _find_model(job: TransformJob, aws: Aws, scratch: Path, on: str | None) -> FoundModel | None:
    """The model from which one is created for the job; None if it is the name of a model of SageMaker.

    Raises:
        GPUproofError: there is no such model.
    """
    text = job.model
    if text.startswith("s3://") and job.server == "image" and job.code is None:
        bucket, _, key = text.removeprefix("s3://").partition("/")
        if aws.object(bucket, key) is None:
            raise UsageError(f"There is no object {text}.", remedy=f"aws s3 ls s3://{bucket}/")
        name = Path(key).name.removesuffix(".gz").removesuffix(".tar").removesuffix(".tgz")
        return FoundModel(ModelSource(None, text, text), None, None, name or "model")
    denied: AwsRefused | None = None
    if not text.startswith("s3://") and not Path(text).expanduser().exists():
        try:
            exists = aws.describe_model(text) is not None
        except AwsRefused as refused:
            if not refused.is_permission:
                raise
            exists, denied = False, refused
        if exists:
            _reject_model_options(job)
            return None
    try:
        return find_model(job, aws, cache_dir(), scratch, on=on, pack=True)
    except UsageError as error:
        if denied is not None:
            raise denied from error
        if isinstance(aws, UnknownAccount) and not text.startswith("s3://"):
            return None  # the account may have a model of that name
        near = [] if text.startswith("s3://") else _nearest_models(aws, text)
        if not near:
            raise
        raise error.replaced(error.message, f"Did you mean the SageMaker model {near[0]}?") from error


def _reject_model_options(job: TransformJob) -> None:
    keys = ["image", "code", "framework", "framework_version", "role"]
    if job.input.startswith("s3://"):
        keys.append("bucket")
    for key in keys:
        if getattr(job, key) is not None:
            raise UsageError(
                f"--{key.replace('_', '-')} is for a model that is created for the job; {job.model} is a model of SageMaker."
            )


def _nearest_models(aws: Aws, name: str) -> list[str]:
    from gpuproof.util.spelling import nearest_words

    try:
        found = aws.call("sagemaker", "list_models", MaxResults=100, SortBy="CreationTime")["Models"]
    except AwsRefused:
        return []
    return nearest_words(name, [item["ModelName"] for item in found], 1)
