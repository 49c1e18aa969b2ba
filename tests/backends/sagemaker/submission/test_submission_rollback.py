"""What a submission takes back when it is interrupted or refused: whatever it had made, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pytest

from gpuproof.backends.aws import Aws, AwsRefused, AwsUnreachable, S3Object
from gpuproof.errors import ExitCode, GPUproofError
from support.sagemaker_sandbox import RecordingProgress, SageMakerSandbox, injected_faults

pytestmark = pytest.mark.slow

T = TypeVar("T")


class Interrupted(Aws):
    """Ctrl-C comes once, as soon as AWS has answered so many requests."""

    left = 0

    def _with_retries(self, service: str, attempt: Callable[[], T], *, once: bool = False) -> T:
        answer = super()._with_retries(service, attempt, once=once)
        if self.left:
            self.left -= 1
            if not self.left:
                raise KeyboardInterrupt
        return answer


def test_an_interrupt_after_any_request_leaves_nothing(sandbox: SageMakerSandbox) -> None:
    job = sandbox.training(inputs={"training": "data"})
    (sandbox.folder / "src" / "train.py").write_text("import time\nprint('on')\ntime.sleep(600)\n")
    interrupted = 0
    for number in range(1, 60):
        aws = sandbox.client(Interrupted)
        backend = sandbox.backend(aws)
        plan = backend.plan(job)
        assert isinstance(aws, Interrupted)
        aws.left = number
        try:
            started = backend.submit_once(plan)
        except KeyboardInterrupt:
            interrupted += 1
            assert sandbox.objects() == set(), f"after request {number}"
            assert plan.run_id not in sandbox.jobs("InProgress"), f"after request {number}"
            continue
        aws.left = 0
        started.run.stop()
        assert started.run.wait().status == "Stopped"
        break
    assert interrupted > 8


def test_an_interrupt_at_any_step_leaves_nothing_of_it_beside_what_was_there(
    sandbox: SageMakerSandbox,
) -> None:
    backend = sandbox.backend()
    sandbox.run(sandbox.training())
    before = sandbox.objects()
    job = sandbox.training(inputs={"training": "data"})

    def at(wanted: int) -> Callable[[int], None]:
        def interrupt(number: int) -> None:
            if number == wanted:
                raise KeyboardInterrupt

        return interrupt

    for number in range(1, 6):
        progress = RecordingProgress(at(number))
        plan = backend.plan(job)
        with pytest.raises(KeyboardInterrupt):
            backend.submit_once(plan, progress)
        assert sandbox.objects() == before, progress.steps
        assert plan.run_id not in sandbox.jobs("InProgress")


class WithoutBucketPolicy(Interrupted):
    """Moto passes over the condition of a bucket's policy, and would refuse everything."""

    def call(self, service: str, operation: str, /, **request: Any) -> dict[str, Any]:
        return {} if operation == "put_bucket_policy" else super().call(service, operation, **request)


def test_an_interrupt_takes_back_the_bucket_that_was_made_for_the_run(sandbox: SageMakerSandbox) -> None:
    job = sandbox.training(inputs={"training": "data"}, sagemaker={"bucket": None})
    interrupted = 0
    for number in range(1, 60):
        aws = sandbox.client(WithoutBucketPolicy)
        assert isinstance(aws, WithoutBucketPolicy)
        backend = sandbox.backend(aws)
        plan = backend.plan(job)
        assert plan.bucket.calls
        aws.left = number
        try:
            started = backend.submit_once(plan)
        except KeyboardInterrupt:
            interrupted += 1
            assert sandbox.aws.bucket_region(plan.bucket.name) is None, f"after request {number}"
            continue
        aws.left = 0
        assert started.run.wait().status == "Completed"
        break
    assert interrupted > 12
    assert sandbox.objects(f"gpuproof/runs/{plan.run_id}/code/", plan.bucket.name)


def test_a_refusal_leaves_nothing(sandbox: SageMakerSandbox) -> None:
    backend = sandbox.backend()
    denied = "access-denied,operation=CreateTrainingJob,action=iam:PassRole"
    with injected_faults(sandbox.emulator, denied), pytest.raises(AwsRefused) as raised:
        backend.submit_once(backend.plan(sandbox.training(inputs={"training": "data"})))
    assert "iam:PassRole" in raised.value.message
    assert raised.value.exit_code == ExitCode.AWS_REFUSED
    assert sandbox.objects() == set()


@pytest.mark.parametrize("operation", ["HeadObject", "PutObject", "CopyObject", "CreateTrainingJob"])
def test_a_refusal_of_any_request_leaves_nothing(sandbox: SageMakerSandbox, operation: str) -> None:
    backend = sandbox.backend()
    plan = backend.plan(sandbox.training())
    with (
        injected_faults(sandbox.emulator, f"internal-error,operation={operation}"),
        pytest.raises(GPUproofError),
    ):
        backend.submit_once(plan)
    assert sandbox.objects() == set()
    assert plan.run_id not in sandbox.jobs("InProgress")


def test_what_was_sent_stays_when_the_connection_is_lost_for_good(sandbox: SageMakerSandbox) -> None:
    backend, progress = sandbox.backend(), RecordingProgress()
    plan = backend.plan(sandbox.training(inputs={"training": "data"}))
    with injected_faults(sandbox.emulator, "drop,operation=CopyObject"), pytest.raises(AwsUnreachable):
        backend.submit_once(plan, progress)
    assert "uploaded files stay in the bucket and are not uploaded again" in progress.notes
    assert sandbox.objects("gpuproof/inputs/") != set()
    assert sandbox.objects("gpuproof/runs/") == set()


def test_what_cannot_be_rolled_back_is_noted(sandbox: SageMakerSandbox) -> None:
    backend, progress = sandbox.backend(), RecordingProgress()
    plan = backend.plan(sandbox.training())
    faults = ("access-denied,operation=CreateTrainingJob", "access-denied,operation=DeleteObjects")
    with injected_faults(sandbox.emulator, *faults), pytest.raises(AwsRefused) as raised:
        backend.submit_once(plan, progress)
    assert raised.value.operation == "CreateTrainingJob"
    assert any("not deleted:" in note and plan.run_id in note for note in progress.notes)


class Unlisted(Aws):
    """Ctrl-C comes when the job was made, and S3 cannot be listed any more."""

    is_made = False

    def call(self, service: str, operation: str, /, **request: Any) -> dict[str, Any]:
        answer = super().call(service, operation, **request)
        if operation == "create_training_job":
            self.is_made = True
            raise KeyboardInterrupt
        return answer

    def list_objects(self, bucket: str, prefix: str) -> Iterator[S3Object]:
        if self.is_made:
            raise AwsUnreachable("S3 is away.")
        return super().list_objects(bucket, prefix)


def test_files_that_cannot_be_listed_keep_nothing_else_from_being_taken_back(
    sandbox: SageMakerSandbox,
) -> None:
    backend = sandbox.backend(sandbox.client(Unlisted))
    plan = backend.plan(sandbox.training())
    progress = RecordingProgress()
    with pytest.raises(KeyboardInterrupt):
        backend.submit_once(plan, progress)
    assert plan.run_id not in sandbox.jobs("InProgress")
    assert not any("/code/" in key or "/objects/" in key for key in sandbox.objects())
    assert any("S3 is away. Check its state: gpuproof show" in note for note in progress.notes)
