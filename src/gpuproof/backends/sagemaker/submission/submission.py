"""One submission of a job: its files, then the job on the first instance type that has capacity."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from gpuproof.agent.state import ENDED
from gpuproof.backends.api_call import ApiCall
from gpuproof.backends.aws import Aws, AwsRefused, AwsUnreachable
from gpuproof.backends.aws.retry import poll_pauses
from gpuproof.backends.errors import UnavailableType
from gpuproof.backends.progress import SilentProgress, SubmitProgress
from gpuproof.backends.remote.execute import execute, redacted, step_of
from gpuproof.backends.remote.run_files import RunFiles, describe_remaining
from gpuproof.backends.sagemaker.plan import SageMakerPlan
from gpuproof.backends.sagemaker.run import SageMakerRun
from gpuproof.backends.sagemaker.submission.capacity import no_capacity, unavailable_type
from gpuproof.backends.sagemaker.target import Target
from gpuproof.backends.transaction import ATTEMPTS, Step, Transaction, Undo
from gpuproof.catalogue import Catalogue
from gpuproof.errors import GPUproofError

_STOP_SECONDS = 300.0


@dataclass(frozen=True)
class Submitted:
    """A run that was created.

    Args:
        target: the instance type that it was created on.
        tried: the instance types that were refused before.
    """

    run: SageMakerRun
    target: Target
    tried: tuple[UnavailableType, ...] = ()


def submit_once(
    plan: SageMakerPlan,
    aws: Aws,
    catalogue: Catalogue,
    progress: SubmitProgress | None = None,
    *,
    before: tuple[UnavailableType, ...] = (),
    sleep: Callable[[float], None] = time.sleep,
) -> Submitted:
    """Create everything in the plan, and the job last.

    If AWS refuses an instance type for lack of capacity or quota, the next one is tried.

    Args:
        before: the instance types that earlier runs of the same job tried.
        sleep: waits for a number of seconds.

    Raises:
        NoCapacity: every instance type of the plan was refused.
        GPUproofError: a request failed; what was created has been deleted.
    """
    progress, tried = progress or SilentProgress(), list(before)

    def unavailable(target: Target, error: GPUproofError) -> UnavailableType | None:
        if not isinstance(error, AwsRefused) or not (error.is_capacity or error.is_quota):
            return None
        refused = unavailable_type(plan, target, error.code, error.aws_message, catalogue)
        following = plan.targets[plan.targets.index(target) + 1 :]
        if following:
            note = f"{refused.summary}; trying {following[0].name}\n{refused.quota_hint}"
            progress.report("note", note.rstrip())
        return refused

    with Transaction(
        progress, rollback="delete what was created", describe=describe_remaining, sleep=sleep
    ) as transaction:
        files = RunFiles(aws, transaction, plan.bucket, plan.uploads, progress, plan.kms_key)
        files.create_bucket()
        files.upload()
        files.fill_code_channel(plan.code_calls())
        job = _Job(plan, aws, progress, sleep)

        def create(target: Target) -> Target:
            put, create_job = plan.create_calls(target)
            transaction.execute(step_of(aws, put, shown=False))
            transaction.execute(job.step(create_job, files.undo_written(plan.layout.prefix)))
            return target

        target = transaction.first_available(
            plan.targets, create, unavailable, lambda tried: no_capacity(tried, plan, catalogue), tried
        )
        run = SageMakerRun(aws, plan.run_id, plan.kind, catalogue=catalogue, instance_type=target.name)
        return Submitted(run, target, tuple(tried))


@dataclass(frozen=True)
class _Job:
    """The job of a plan; its name is unique, so no second one is created after a lost response."""

    plan: SageMakerPlan
    aws: Aws
    progress: SubmitProgress
    sleep: Callable[[float], None]

    def step(self, create: ApiCall, undo_written: Undo) -> Step[bool]:
        """The step that creates the job; `undo_written` deletes its files when it has ended."""

        def call() -> bool:
            try:
                execute(self.aws, create)
            except (AwsRefused, AwsUnreachable) as error:
                raise redacted(error, self.plan.job.environment) from None
            return True

        remedy = f"Check its state: gpuproof show {self.plan.run_id}{self.aws.region_flag}"
        stop = Undo(
            f"stop the job {self.plan.run_id}", self._stop, holds=True, interrupts=ATTEMPTS, remedy=remedy
        )
        return Step(
            create.what,
            call,
            (undo_written, stop),
            lookup=self._exists,
            looking="check whether the job was created before the connection was lost",
            attempts=ATTEMPTS,
            in_use=lambda refused: refused.code in ("ResourceInUse", "ConflictException"),
        )

    def _exists(self) -> bool | None:
        """True if a job of the run's name exists and was created by this run."""
        plan = self.plan
        description = self.aws.describe_job(plan.kind, plan.run_id)
        if description is None:
            return None
        tags = self.aws.tags(description[f"{plan.kind.capitalize()}JobArn"])
        return tags.get("gpuproof:run") == plan.run_id or None

    def _stop(self) -> None:
        """Stop the job, if it exists, and wait until it has ended."""
        plan = self.plan
        if self.aws.describe_job(plan.kind, plan.run_id) is None:
            return
        self.progress.step(f"stop the job {plan.run_id}")
        self.aws.stop_job(plan.kind, plan.run_id)
        for pause in poll_pauses(_STOP_SECONDS):
            description = self.aws.describe_job(plan.kind, plan.run_id)
            if description is None or description[f"{plan.kind.capitalize()}JobStatus"] in ENDED:
                return
            self.sleep(pause)
