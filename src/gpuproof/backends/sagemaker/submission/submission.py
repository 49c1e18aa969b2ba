"""One submission: executes the calls of a plan in order, and rolls them back after an error or an interrupt."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from gpuproof.agent.state import ENDED
from gpuproof.backends.api_call import HIDDEN, ApiCall
from gpuproof.backends.aws import Aws, AwsRefused, AwsUnreachable
from gpuproof.backends.errors import NoCapacity, UnavailableType
from gpuproof.backends.progress import SilentProgress, SubmitProgress
from gpuproof.backends.remote.execute import execute
from gpuproof.backends.remote.run_files import RunFiles, deletion_call
from gpuproof.backends.sagemaker.plan import SageMakerPlan
from gpuproof.backends.sagemaker.run import SageMakerRun
from gpuproof.backends.sagemaker.submission.capacity import no_capacity, unavailable_type
from gpuproof.backends.sagemaker.target import Target
from gpuproof.catalogue import Catalogue
from gpuproof.errors import GPUproofError

_ATTEMPTS = 3
_LOOKUP_DELAYS = (0.0, 2.0, 5.0)
"""Seconds before each lookup of a job whose creation was not answered: it may become visible a moment later."""

_STOP_SECONDS = 300.0
_STOP_POLL_SECONDS = 3.0
_SHORTEST_SECRET = 4


@dataclass(frozen=True)
class Submitted:
    """A run that was created.

    Args:
        run: the run.
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
    return _Submission(plan, aws, catalogue, progress or SilentProgress(), sleep).run(before)


class _Submission:
    def __init__(
        self,
        plan: SageMakerPlan,
        aws: Aws,
        catalogue: Catalogue,
        progress: SubmitProgress,
        sleep: Callable[[float], None],
    ) -> None:
        self._plan = plan
        self._aws = aws
        self._catalogue = catalogue
        self._progress = progress
        self._sleep = sleep
        self._files = RunFiles(aws, plan.bucket, plan.uploads, progress, plan.kms_key)
        self._run_undo = self._files.run_undo

    def run(self, before: tuple[UnavailableType, ...]) -> Submitted:
        try:
            self._files.create_bucket()
            self._files.upload()
            self._files.fill_code_channel(self._plan.code_calls())
            return self._create_job(list(before))
        except BaseException as error:
            self._roll_back(error)
            raise

    def _create_job(self, tried: list[UnavailableType]) -> Submitted:
        plan = self._plan
        for number, target in enumerate(plan.targets):
            put, create = plan.create_calls(target)
            self._run_undo.add(put.undo)
            execute(self._aws, put)
            self._progress.step(create.what)
            self._run_undo.add(create.undo)
            try:
                self._create_job_once(create)
            except AwsRefused as refused:
                if not refused.maybe_done:
                    self._run_undo.discard(create.undo)
                if not (refused.is_capacity or refused.is_quota):
                    raise
                tried.append(
                    unavailable_type(plan, target, refused.code, refused.aws_message, self._catalogue)
                )
                if number + 1 < len(plan.targets):
                    following = plan.targets[number + 1].name
                    note = f"{tried[-1].summary}; trying {following}\n{tried[-1].quota_hint}"
                    self._progress.report("note", note.rstrip())
                continue
            run = SageMakerRun(
                self._aws, plan.run_id, plan.kind, catalogue=self._catalogue, instance_type=target.name
            )
            return Submitted(run, target, tuple(tried))
        raise no_capacity(tried, plan, self._catalogue)

    def _create_job_once(self, create: ApiCall) -> None:
        """Create the job, and never a second one after a lost connection: the name of the job is unique."""
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                execute(self._aws, create)
            except (AwsRefused, AwsUnreachable) as error:
                in_use = isinstance(error, AwsRefused) and error.code in (
                    "ResourceInUse",
                    "ConflictException",
                )
                if not in_use and not error.maybe_done:
                    raise self._redacted(error) from None
                self._progress.step("check whether the job was created before the connection was lost")
                if self._job_exists():
                    return
                if in_use or attempt == _ATTEMPTS:
                    raise self._redacted(error) from None
            else:
                return

    def _job_exists(self) -> bool:
        """Whether a job of the run's name exists and was created by this run."""
        plan = self._plan
        for seconds in _LOOKUP_DELAYS:
            if seconds:
                self._sleep(seconds)
            description = self._aws.describe_job(plan.kind, plan.run_id)
            if description is not None:
                arn = description[f"{plan.kind.capitalize()}JobArn"]
                return self._aws.tags(arn).get("gpuproof:run") == plan.run_id
        return False

    def _roll_back(self, error: BaseException) -> None:
        self._progress.step("delete what was created")
        stopped = self._stop_job()
        for problem in (*stopped, *self._files.roll_back(keep_uploads=_is_worth_retrying(error))):
            self._progress.report("note", f"not deleted: {problem}")

    def _stop_job(self) -> list[str]:
        """Stop the job if it was created, and have its files deleted with the rest of the run."""
        plan = self._plan
        stop = self._run_undo.pop_stop()
        if stop is None:
            return []
        why = "interrupted repeatedly."
        for _ in range(_ATTEMPTS):
            try:
                self._stop_and_wait(plan)
                left = [item.key for item in self._aws.list_objects(plan.bucket.name, plan.layout.prefix)]
            except KeyboardInterrupt:
                continue  # another Ctrl-C must not leave the job running
            except GPUproofError as error:
                why = error.message
                break
            if left:
                self._run_undo.add(deletion_call(plan.bucket.name, left, "the run's files"))
            return []
        return [f"{stop.what}: {why} Check its state: gpuproof show {plan.run_id}{self._aws.region_flag}"]

    def _stop_and_wait(self, plan: SageMakerPlan) -> None:
        if self._aws.describe_job(plan.kind, plan.run_id) is None:
            return
        self._progress.step(f"stop the job {plan.run_id}")
        self._aws.stop_job(plan.kind, plan.run_id)
        waited = 0.0
        while waited < _STOP_SECONDS:
            description = self._aws.describe_job(plan.kind, plan.run_id)
            if description is None or description[f"{plan.kind.capitalize()}JobStatus"] in ENDED:
                return
            self._sleep(_STOP_POLL_SECONDS)
            waited += _STOP_POLL_SECONDS

    def _redacted(self, error: AwsRefused | AwsUnreachable) -> AwsRefused | AwsUnreachable:
        """The error without values of environment variables, which AWS quotes when it rejects them."""
        message = error.message
        for value in self._plan.job.environment.values():
            if len(value) >= _SHORTEST_SECRET:
                message = message.replace(value, HIDDEN)
        return error.replaced(message, error.remedy)


def _is_worth_retrying(error: BaseException) -> bool:
    """Whether the same job may succeed when it is run again, so that its uploads should be kept."""
    return isinstance(error, NoCapacity | AwsUnreachable)
