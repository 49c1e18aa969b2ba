"""Carrying a plan out: everything is made in order, and taken back where the rest fails or is interrupted."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from gpuproof.agent.state import ENDED
from gpuproof.backends.aws import Aws, AwsRefused, AwsUnreachable
from gpuproof.backends.sagemaker.plan import SageMakerPlan, code_calls, create_calls
from gpuproof.backends.sagemaker.requests.common import Target
from gpuproof.backends.sagemaker.run import SageMakerRun
from gpuproof.backends.sagemaker.s3_layout import input_prefix, manifest_key, object_key
from gpuproof.backends.sagemaker.submission.aws_call import HIDDEN, Call
from gpuproof.backends.sagemaker.submission.capacity import NotToBeHad, Tried, not_to_be_had, told_of
from gpuproof.backends.sagemaker.submission.execute import Undo, perform
from gpuproof.backends.sagemaker.tracking.progress import Unwatched, Watch
from gpuproof.backends.sagemaker.upload.upload import Folder, Parcel, send, send_folder
from gpuproof.catalogue import Catalogue
from gpuproof.errors import GPUproofError

_ATTEMPTS = 3
_LOOKS = (0.0, 2.0, 5.0)
"""Seconds before each look for a job whose creation was not answered: it may be listed a moment later."""

_STOP_SECONDS = 300.0
_STOP_LOOKS = 3.0
_SHORTEST_SECRET = 4


@dataclass(frozen=True)
class Started:
    """A run that is on its way.

    Args:
        run: the run.
        plan: what it was made by.
        target: the instance type that it got.
        tried: the types that were asked for in vain before.
    """

    run: SageMakerRun
    plan: SageMakerPlan
    target: Target
    tried: tuple[Tried, ...] = ()


def submit(
    plan: SageMakerPlan,
    aws: Aws,
    catalogue: Catalogue,
    watch: Watch | None = None,
    *,
    before: tuple[Tried, ...] = (),
    sleep: Callable[[float], None] = time.sleep,
) -> Started:
    """Make everything that the plan says, and the job last.

    Where AWS has no capacity or no quota for an instance type, the next is asked for.

    Args:
        before: what was tried by an earlier run of the same job.
        sleep: waits that many seconds.

    Raises:
        NotToBeHad: no type of the plan is to be had.
        GPUproofError: something was refused; what was made is gone again.
    """
    return _Submission(plan, aws, catalogue, watch or Unwatched(), sleep).carry_out(before)


class _Submission:
    def __init__(
        self,
        plan: SageMakerPlan,
        aws: Aws,
        catalogue: Catalogue,
        watch: Watch,
        sleep: Callable[[float], None],
    ) -> None:
        self._plan = plan
        self._aws = aws
        self._catalogue = catalogue
        self._watch = watch
        self._sleep = sleep
        self._bucket_undo, self._sent_undo, self._run_undo = Undo(aws), Undo(aws), Undo(aws)

    def carry_out(self, before: tuple[Tried, ...]) -> Started:
        try:
            self._make_bucket()
            self._send()
            self._fill_code()
            return self._create(list(before))
        except BaseException as error:
            self._take_back(error)
            raise

    def _make_bucket(self) -> None:
        for call in self._plan.bucket.calls:
            self._watch.step(call.what)
            self._bucket_undo.remember(call.undo)
            try:
                perform(self._aws, call)
            except AwsRefused as refused:
                # Another run of ours made it since; it is not this one's to take back.
                if refused.code != "BucketAlreadyOwnedByYou":
                    raise
                self._bucket_undo.forget(call.undo)

    def _send(self) -> None:
        cargo = self._plan.cargo
        self._send_parcel("the agent", cargo.agent)
        self._send_parcel("the source", cargo.source)
        for name, folder in cargo.folders.items():
            self._send_folder(f"the input {name}", folder)

    def _send_parcel(self, what: str, parcel: Parcel) -> None:
        bucket, key = self._plan.bucket.name, object_key(parcel.digest)
        self._watch.step(f"send {what}")
        if self._missing(key):
            self._sent_undo.remember(_removal(bucket, [key], what))
        send(self._aws, bucket, parcel, kms_key=self._kms_key, progress=self._told(what))

    def _send_folder(self, what: str, folder: Folder) -> None:
        bucket, prefix = self._plan.bucket.name, input_prefix(folder.digest)
        self._watch.step(f"send {what}")
        there = {item.key for item in self._aws.list_objects(bucket, prefix)}
        missing = [key for name in folder.files if (key := f"{prefix}{name}") not in there]
        manifest = manifest_key(folder.digest)
        if missing:
            self._sent_undo.remember(_removal(bucket, [*missing, manifest], what))
        send_folder(self._aws, bucket, folder, kms_key=self._kms_key, progress=self._told(what))

    def _fill_code(self) -> None:
        calls = code_calls(self._plan)
        for call in calls:
            self._run_undo.remember(call.undo)
        self._watch.step("bring agent and source into the code channel")
        try:
            self._copy(calls)
        except AwsRefused as refused:
            # Somebody who was interrupted took back what both had sent.
            if refused.code not in ("NoSuchKey", "404"):
                raise
            self._send()
            self._copy(calls)

    def _copy(self, calls: tuple[Call, ...]) -> None:
        for call in calls:
            perform(self._aws, call)

    def _create(self, tried: list[Tried]) -> Started:
        plan = self._plan
        for number, target in enumerate(plan.targets):
            put, create = create_calls(plan, target)
            self._run_undo.remember(put.undo)
            perform(self._aws, put)
            self._watch.step(create.what)
            self._run_undo.remember(create.undo)
            try:
                self._create_once(create)
            except AwsRefused as refused:
                if not refused.maybe_done:
                    self._run_undo.forget(create.undo)
                if not (refused.is_capacity or refused.is_quota):
                    raise
                tried.append(told_of(plan, target, refused.code, refused.said, self._catalogue))
                if number + 1 < len(plan.targets):
                    self._watch.note(
                        f"{tried[-1].in_short}; trying {plan.targets[number + 1].name}\n{tried[-1].needs}".rstrip()
                    )
                continue
            run = SageMakerRun(self._aws, plan.run_id, plan.kind, catalogue=self._catalogue)
            return Started(run, plan, target, tuple(tried))
        raise not_to_be_had(tried, plan, self._catalogue)

    def _create_once(self, create: Call) -> None:
        """Create the job; never a second one, whatever happens to the connection: it has one name."""
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                perform(self._aws, create)
            except (AwsRefused, AwsUnreachable) as error:
                self._hide_secrets(error)
                in_use = isinstance(error, AwsRefused) and error.code in (
                    "ResourceInUse",
                    "ConflictException",
                )
                if not in_use and not error.maybe_done:
                    raise
                self._watch.step("look whether the job was created before the connection was lost")
                if self._is_there():
                    return
                if in_use or attempt == _ATTEMPTS:
                    raise
            else:
                return

    def _is_there(self) -> bool:
        """Whether a job of the run's name is there, and ours."""
        plan = self._plan
        for seconds in _LOOKS:
            if seconds:
                self._sleep(seconds)
            description = self._aws.describe_job(plan.kind, plan.run_id)
            if description is not None:
                arn = description[f"{plan.kind.capitalize()}JobArn"]
                return self._aws.tags(arn).get("gpuproof:run") == plan.run_id
        return False

    def _take_back(self, error: BaseException) -> None:
        self._watch.step("take back what was made")
        problems = [*self._stopped(), *self._run_undo.take_back()]
        if _worth_another_try(error):
            self._watch.note("what was sent stays in the bucket, and is not sent again")
        else:
            problems += self._sent_undo.take_back()
            problems += self._bucket_undo.take_back()
        for problem in problems:
            self._watch.note(f"could not be taken back: {problem}")

    def _stopped(self) -> list[str]:
        """Stop the job, if it was made; what it had written until then goes with the rest of the run."""
        plan = self._plan
        stop = self._run_undo.pop_stop()
        if stop is None:
            return []
        why = "interrupted again and again."
        for _ in range(_ATTEMPTS):
            try:
                self._stop(plan)
                left = [item.key for item in self._aws.list_objects(plan.bucket.name, plan.layout.prefix)]
            except KeyboardInterrupt:
                continue  # it is being stopped already: Ctrl-C once more must not leave it running
            except GPUproofError as error:
                why = error.message
                break
            if left:
                self._run_undo.remember(_removal(plan.bucket.name, left, "the run's files"))
            return []
        return [f"{stop.what}: {why} Look: gpuproof show {plan.run_id}{self._aws.region_flag}"]

    def _stop(self, plan: SageMakerPlan) -> None:
        if self._aws.describe_job(plan.kind, plan.run_id) is None:
            return
        self._watch.step(f"stop the job {plan.run_id}")
        self._aws.stop_job(plan.kind, plan.run_id)
        waited = 0.0
        while waited < _STOP_SECONDS:
            description = self._aws.describe_job(plan.kind, plan.run_id)
            if description is None or description[f"{plan.kind.capitalize()}JobStatus"] in ENDED:
                return
            self._sleep(_STOP_LOOKS)
            waited += _STOP_LOOKS

    def _hide_secrets(self, error: GPUproofError) -> None:
        """AWS quotes values that it does not take."""
        for value in self._plan.job.environment.values():
            if len(value) >= _SHORTEST_SECRET:
                error.message = error.message.replace(value, HIDDEN)
                error.args = (error.message,)

    def _missing(self, key: str) -> bool:
        try:
            return self._aws.object(self._plan.bucket.name, key) is None
        except AwsRefused:
            return False

    def _told(self, what: str) -> Callable[[int, int], None]:
        return lambda done, total: self._watch.progress(what, done, total)

    @property
    def _kms_key(self) -> str | None:
        return self._plan.job.sagemaker.output_kms_key


def _worth_another_try(error: BaseException) -> bool:
    """Whether the same job, run again, may well go through: what was sent for it is worth keeping."""
    return isinstance(error, NotToBeHad | AwsUnreachable)


def _removal(bucket: str, keys: list[str], what: str) -> Call:
    objects = [{"Key": key} for key in keys]
    return Call(
        "s3",
        "delete_objects",
        {"Bucket": bucket, "Delete": {"Objects": objects}},
        f"remove {what} from {bucket}",
    )
