"""What a submission deletes when it is interrupted or refused; `test_transaction.py` has all moments and faults."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from gpuproof.backends.aws import Aws, AwsRefused, AwsUnreachable, S3Object
from gpuproof.errors import ExitCode, GPUproofError
from support.sagemaker_sandbox import RecordingProgress, SageMakerSandbox, injected_faults

pytestmark = pytest.mark.slow


class InterruptedCreation(Aws):
    """Ctrl-C comes when the job was created. Moto ignores the condition of a bucket's policy, and would refuse everything."""

    def call(self, service: str, operation: str, /, **request: Any) -> dict[str, Any]:
        if operation == "put_bucket_policy":
            return {}
        answer = super().call(service, operation, **request)
        if operation == "create_training_job":
            raise KeyboardInterrupt
        return answer


def test_an_interrupt_when_the_job_was_created_stops_it_and_deletes_its_bucket(
    sandbox: SageMakerSandbox,
) -> None:
    (sandbox.folder / "src" / "train.py").write_text("import time\nprint('on')\ntime.sleep(600)\n")
    backend, progress = sandbox.backend(sandbox.client(InterruptedCreation)), RecordingProgress()
    plan = backend.plan(sandbox.training(inputs={"training": "data"}, sagemaker={"bucket": None}))
    assert plan.bucket.calls
    with pytest.raises(KeyboardInterrupt):
        backend.submit_once(plan, progress)
    assert sandbox.aws.bucket_region(plan.bucket.name) is None
    assert plan.run_id not in sandbox.jobs("InProgress")
    assert progress.notes == []


def test_an_interrupt_deletes_nothing_that_other_runs_have_stored(sandbox: SageMakerSandbox) -> None:
    sandbox.run(sandbox.training())
    before = sandbox.objects()
    backend = sandbox.backend(sandbox.client(InterruptedCreation))
    plan = backend.plan(sandbox.training(inputs={"training": "data"}))
    with pytest.raises(KeyboardInterrupt):
        backend.submit_once(plan)
    assert sandbox.objects() == before
    assert plan.run_id not in sandbox.jobs("InProgress")


def test_a_refusal_leaves_nothing(sandbox: SageMakerSandbox) -> None:
    backend = sandbox.backend()
    denied = "access-denied,operation=CreateTrainingJob,action=iam:PassRole"
    with injected_faults(sandbox.emulator, denied), pytest.raises(AwsRefused) as raised:
        backend.submit_once(backend.plan(sandbox.training(inputs={"training": "data"})))
    assert "iam:PassRole" in raised.value.message
    assert raised.value.exit_code == ExitCode.AWS_REFUSED
    assert sandbox.objects() == set()


def test_an_internal_error_of_the_creation_leaves_nothing(sandbox: SageMakerSandbox) -> None:
    backend = sandbox.backend()
    plan = backend.plan(sandbox.training())
    with (
        injected_faults(sandbox.emulator, "internal-error,operation=CreateTrainingJob"),
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
    prefix = f"s3://{sandbox.bucket}/{plan.layout.prefix}"
    assert progress.notes == [f"not deleted: delete files below {prefix}: S3 is away."]
