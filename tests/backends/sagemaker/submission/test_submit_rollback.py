"""What a submission takes back when it is interrupted or refused: whatever it had made, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pytest

from gpuproof.backends.aws import Aws, AwsRefused, AwsUnreachable, S3Object
from gpuproof.errors import ExitCode, GPUproofError
from support.sagemaker_sandbox import Desk, Watched, struck

pytestmark = pytest.mark.slow

T = TypeVar("T")


class Interrupted(Aws):
    """Ctrl-C comes once, as soon as AWS has answered so many requests."""

    left = 0

    def _patiently(self, service: str, attempt: Callable[[], T], *, once: bool = False) -> T:
        answer = super()._patiently(service, attempt, once=once)
        if self.left:
            self.left -= 1
            if not self.left:
                raise KeyboardInterrupt
        return answer


def test_an_interrupt_after_any_request_leaves_nothing(desk: Desk) -> None:
    job = desk.training(inputs={"training": "data"})
    (desk.folder / "src" / "train.py").write_text("import time\nprint('on')\ntime.sleep(600)\n")
    interrupted = 0
    for number in range(1, 60):
        aws = desk.client(Interrupted)
        place = desk.place(aws)
        plan = place.plan(job)
        assert isinstance(aws, Interrupted)
        aws.left = number
        try:
            started = place.submit(plan)
        except KeyboardInterrupt:
            interrupted += 1
            assert desk.objects() == set(), f"after request {number}"
            assert plan.run_id not in desk.jobs("InProgress"), f"after request {number}"
            continue
        aws.left = 0
        started.run.stop()
        assert started.run.wait().status == "Stopped"
        break
    assert interrupted > 8


def test_an_interrupt_at_any_step_leaves_nothing_of_it_beside_what_was_there(desk: Desk) -> None:
    place = desk.place()
    desk.run(desk.training())
    before = desk.objects()
    job = desk.training(inputs={"training": "data"})

    def at(wanted: int) -> Callable[[int], None]:
        def interrupt(number: int) -> None:
            if number == wanted:
                raise KeyboardInterrupt

        return interrupt

    for number in range(1, 6):
        watched = Watched(at(number))
        plan = place.plan(job)
        with pytest.raises(KeyboardInterrupt):
            place.submit(plan, watched)
        assert desk.objects() == before, watched.steps
        assert plan.run_id not in desk.jobs("InProgress")


class WithoutBucketPolicy(Interrupted):
    """Moto passes over the condition of a bucket's policy, and would refuse everything."""

    def call(self, service: str, operation: str, /, **request: Any) -> dict[str, Any]:
        return {} if operation == "put_bucket_policy" else super().call(service, operation, **request)


def test_an_interrupt_takes_back_the_bucket_that_was_made_for_the_run(desk: Desk) -> None:
    job = desk.training(inputs={"training": "data"}, sagemaker={"bucket": None})
    interrupted = 0
    for number in range(1, 60):
        aws = desk.client(WithoutBucketPolicy)
        assert isinstance(aws, WithoutBucketPolicy)
        place = desk.place(aws)
        plan = place.plan(job)
        assert plan.bucket.calls
        aws.left = number
        try:
            started = place.submit(plan)
        except KeyboardInterrupt:
            interrupted += 1
            assert desk.aws.bucket_region(plan.bucket.name) is None, f"after request {number}"
            continue
        aws.left = 0
        assert started.run.wait().status == "Completed"
        break
    assert interrupted > 12
    assert desk.objects(f"gpuproof/runs/{plan.run_id}/code/", plan.bucket.name)


def test_a_refusal_leaves_nothing(desk: Desk) -> None:
    place = desk.place()
    denied = "access-denied,operation=CreateTrainingJob,action=iam:PassRole"
    with struck(desk.emulator, denied), pytest.raises(AwsRefused) as raised:
        place.submit(place.plan(desk.training(inputs={"training": "data"})))
    assert "iam:PassRole" in raised.value.message
    assert raised.value.exit_code == ExitCode.AWS_REFUSED
    assert desk.objects() == set()


@pytest.mark.parametrize("operation", ["HeadObject", "PutObject", "CopyObject", "CreateTrainingJob"])
def test_a_refusal_of_any_request_leaves_nothing(desk: Desk, operation: str) -> None:
    place = desk.place()
    plan = place.plan(desk.training())
    with struck(desk.emulator, f"internal-error,operation={operation}"), pytest.raises(GPUproofError):
        place.submit(plan)
    assert desk.objects() == set()
    assert plan.run_id not in desk.jobs("InProgress")


def test_what_was_sent_stays_when_the_connection_is_lost_for_good(desk: Desk) -> None:
    place, watched = desk.place(), Watched()
    plan = place.plan(desk.training(inputs={"training": "data"}))
    with struck(desk.emulator, "drop,operation=CopyObject"), pytest.raises(AwsUnreachable):
        place.submit(plan, watched)
    assert "what was sent stays in the bucket, and is not sent again" in watched.notes
    assert desk.objects("gpuproof/inputs/") != set()
    assert desk.objects("gpuproof/runs/") == set()


def test_what_cannot_be_taken_back_is_said(desk: Desk) -> None:
    place, watched = desk.place(), Watched()
    plan = place.plan(desk.training())
    faults = ("access-denied,operation=CreateTrainingJob", "access-denied,operation=DeleteObjects")
    with struck(desk.emulator, *faults), pytest.raises(AwsRefused) as raised:
        place.submit(plan, watched)
    assert raised.value.operation == "CreateTrainingJob"
    assert any("could not be taken back" in note and plan.run_id in note for note in watched.notes)


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


def test_files_that_cannot_be_listed_keep_nothing_else_from_being_taken_back(desk: Desk) -> None:
    place = desk.place(desk.client(Unlisted))
    plan = place.plan(desk.training())
    watched = Watched()
    with pytest.raises(KeyboardInterrupt):
        place.submit(plan, watched)
    assert plan.run_id not in desk.jobs("InProgress")
    assert not any("/code/" in key or "/objects/" in key for key in desk.objects())
    assert any("S3 is away. Look: gpuproof show" in note for note in watched.notes)
