"""What a submission deletes when it is interrupted or refused: all but the VPC's security group; `test_transaction.py` has all moments."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from gpuproof.backends.aws import Aws, AwsRefused, AwsUnreachable, S3Object
from gpuproof.backends.ec2.requests.launch_objects import read_launch, record_call
from gpuproof.backends.ec2.submission.errors import read_errors
from gpuproof.backends.interrupts import Terminated, sigterm_interrupts
from gpuproof.backends.remote.execute import execute
from gpuproof.backends.remote.s3_layout import LAUNCHES
from gpuproof.errors import ExitCode, GPUproofError, InvalidJob
from support.ec2_sandbox import EC2Sandbox, interrupted_at
from support.faulty_aws import disconnect, query_error
from support.sagemaker_sandbox import RecordingProgress, injected_faults

pytestmark = pytest.mark.slow


def ctrl_c() -> None:
    raise KeyboardInterrupt


def terminated() -> None:
    if threading.current_thread() is not threading.main_thread():
        raise Terminated
    os.kill(os.getpid(), signal.SIGTERM)


def test_sigterm_before_the_launch_leaves_nothing_but_the_security_group(sandbox: EC2Sandbox) -> None:
    plan, progress = sandbox.plan(), RecordingProgress(interrupted_at(6, terminated))
    with sigterm_interrupts(), pytest.raises(Terminated):
        sandbox.submit(plan, progress)
    assert progress.steps[:7] == [
        "upload the agent",
        "upload the source",
        "upload the input training",
        "create the security group gpuproof",
        "copy the agent and the source into the code channel",
        "launch the instance g5.xlarge in us-east-1a",
        "delete what was created",
    ]
    sandbox.assert_nothing_left(plan)


def test_what_another_run_has_uploaded_and_launched_stays(sandbox: EC2Sandbox) -> None:
    other = sandbox.plan()
    sandbox.submit(other)
    before = sandbox.objects()
    plan = sandbox.plan()
    with pytest.raises(KeyboardInterrupt):
        sandbox.submit(plan, RecordingProgress(interrupted_at(5, ctrl_c)))
    assert sandbox.objects() == before
    assert sandbox.instances(plan.run_id) == []
    assert len(sandbox.instances(other.run_id)) == 1


class InterruptedLaunch(Aws):
    """Ctrl-C comes while EC2 launches the instance, so that its id is never known; another one while it is terminated."""

    again = 0

    def run_instances(self, request: Any) -> Any:
        super().run_instances(request)
        raise KeyboardInterrupt

    def terminate_instances(self, ids: Any) -> None:
        if self.again:
            self.again -= 1
            raise KeyboardInterrupt
        super().terminate_instances(ids)


@pytest.mark.parametrize("again", [0, 1, 2])
def test_an_instance_whose_id_is_unknown_is_terminated(sandbox: EC2Sandbox, again: int) -> None:
    aws = sandbox.client(InterruptedLaunch)
    assert isinstance(aws, InterruptedLaunch)
    aws.again = again
    plan = sandbox.plan()
    with pytest.raises(KeyboardInterrupt):
        sandbox.submit(plan, aws=aws)
    sandbox.assert_nothing_left(plan)


def test_the_bucket_of_an_interrupted_launch_is_deleted(sandbox: EC2Sandbox) -> None:
    sandbox.bucket = None
    plan = sandbox.plan()
    assert plan.bucket.calls
    with pytest.raises(KeyboardInterrupt):
        sandbox.submit(plan, aws=sandbox.client(InterruptedLaunch))
    assert sandbox.aws.bucket_region(plan.bucket.name) is None
    assert sandbox.instances() == []


class CancelledLaunch(Aws):
    """Another command stops or removes the run while EC2 launches its instance.

    Attributes:
        removes: whether it removes it.
    """

    removes = False

    def run_instances(self, request: Any) -> Any:
        launched = super().run_instances(request)
        (record,) = [item.key for item in self.list_objects(self.bucket, LAUNCHES)]
        launch = read_launch(self, self.bucket, record.removeprefix(LAUNCHES).removesuffix(".json"))
        assert launch is not None
        if self.removes:
            self.delete_objects(self.bucket, [record])
        else:
            execute(self, record_call(replace(launch, stopped=launch.launching)))
        return launched

    bucket = ""


@pytest.mark.parametrize("removes", [False, True])
def test_a_run_that_is_stopped_while_it_is_launched_leaves_nothing(
    sandbox: EC2Sandbox, *, removes: bool
) -> None:
    plan, aws = sandbox.plan(), sandbox.client(CancelledLaunch)
    assert isinstance(aws, CancelledLaunch)
    aws.bucket, aws.removes = plan.bucket.name, removes
    with pytest.raises(GPUproofError, match="by another command while its instance was being launched"):
        sandbox.submit(plan, aws=aws)
    sandbox.assert_nothing_left(plan, uploads=True)


def test_an_instance_that_is_not_visible_at_once_is_terminated(sandbox: EC2Sandbox) -> None:
    hidden = query_error("")
    hidden.status = 200
    hidden.body = b"<DescribeInstancesResponse><reservationSet/></DescribeInstancesResponse>"
    sandbox.faulty.fault("DescribeInstances", hidden, times=2)
    sandbox.faulty.fault("TerminateInstances", query_error("InvalidInstanceID.NotFound"))
    plan = sandbox.plan()
    with pytest.raises(KeyboardInterrupt):
        sandbox.submit(plan, aws=sandbox.client(InterruptedLaunch))
    sandbox.assert_nothing_left(plan)
    assert sandbox.slept


def test_an_instance_whose_launch_was_never_answered_is_terminated(sandbox: EC2Sandbox) -> None:
    plan = sandbox.plan()
    hidden = query_error("")
    hidden.status = 200
    hidden.body = b"<DescribeInstancesResponse><reservationSet/></DescribeInstancesResponse>"
    sandbox.faulty.fault("RunInstances", disconnect(forwards=True), times=None)
    sandbox.faulty.fault("DescribeInstances", hidden, times=10)
    with pytest.raises(AwsUnreachable):
        sandbox.submit(plan)
    sandbox.assert_nothing_left(plan, uploads=True)


def test_a_record_that_cannot_be_written_after_the_launch_takes_the_instance_back(
    sandbox: EC2Sandbox,
) -> None:
    plan = sandbox.plan()
    denied = f"access-denied,operation=PutObject,name=*/{plan.run_id}.json,skip=1"
    with injected_faults(sandbox.emulator, denied), pytest.raises(AwsRefused, match="AccessDenied"):
        sandbox.submit(plan)
    assert sandbox.faulty.count("RunInstances") == 1
    sandbox.assert_nothing_left(plan)


def test_files_that_the_instance_has_written_are_deleted(sandbox: EC2Sandbox) -> None:
    plan = sandbox.plan()
    key = plan.layout.host_file("algo-1", "boot.json")

    class Booted(InterruptedLaunch):
        def run_instances(self, request: Any) -> Any:
            self.put_object(plan.bucket.name, key, b"{}")
            super().run_instances(request)

    with pytest.raises(KeyboardInterrupt):
        sandbox.submit(plan, aws=sandbox.client(Booted))
    sandbox.assert_nothing_left(plan)


STOPPING = [row for row in read_errors() if row.next == "stop" and row.kind != "throttling"]


@pytest.mark.parametrize("row", STOPPING, ids=lambda row: row.code)
def test_a_refusal_that_no_other_zone_cures_stops(sandbox: EC2Sandbox, row: Any) -> None:
    plan = sandbox.plan("g5.xlarge", "g6.xlarge")
    sandbox.refuse(row.code, f"{row.message or 'No.'} refused")
    with pytest.raises(AwsRefused) as raised:
        sandbox.submit(plan)
    assert raised.value.code == row.code
    assert raised.value.exit_code == ExitCode.AWS_REFUSED
    assert sandbox.faulty.count("RunInstances") == 1
    sandbox.assert_nothing_left(plan)


def test_uploads_stay_when_the_connection_is_lost_for_good(sandbox: EC2Sandbox) -> None:
    plan, progress = sandbox.plan(), RecordingProgress()
    with injected_faults(sandbox.emulator, "drop,operation=CopyObject"), pytest.raises(AwsUnreachable):
        sandbox.submit(plan, progress)
    assert "uploaded files stay in the bucket and are not uploaded again" in progress.notes
    sandbox.assert_nothing_left(plan, uploads=True)
    assert sandbox.objects("gpuproof/inputs/")


def test_an_instance_that_cannot_be_terminated_keeps_its_record(sandbox: EC2Sandbox) -> None:
    plan, progress = sandbox.plan(), RecordingProgress()
    sandbox.faulty.fault("TerminateInstances", query_error("UnauthorizedOperation", "no", 403), times=None)
    with pytest.raises(KeyboardInterrupt):
        sandbox.submit(plan, progress, aws=sandbox.client(InterruptedLaunch))
    (instance,) = sandbox.instances(plan.run_id)
    assert sandbox.objects() == {plan.layout.launch}
    (note,) = [note for note in progress.notes if note.startswith("not deleted:")]
    assert f"aws ec2 terminate-instances --instance-ids {instance['InstanceId']} --region us-east-1" in note


def test_a_known_instance_is_terminated_although_none_may_be_described(sandbox: EC2Sandbox) -> None:
    plan = sandbox.plan()
    sandbox.faulty.fault("DescribeInstances", query_error("UnauthorizedOperation", "no", 403), times=None)
    denied = f"access-denied,operation=PutObject,name=*/{plan.run_id}.json,skip=1"
    with injected_faults(sandbox.emulator, denied), pytest.raises(AwsRefused, match="AccessDenied"):
        sandbox.submit(plan)
    sandbox.assert_nothing_left(plan)


def test_files_that_cannot_be_listed_keep_nothing_else_from_being_deleted(sandbox: EC2Sandbox) -> None:
    class Unlisted(InterruptedLaunch):
        launched = False

        def run_instances(self, request: Any) -> Any:
            self.launched = True
            super().run_instances(request)

        def list_objects(self, bucket: str, prefix: str) -> Iterator[S3Object]:
            if self.launched:
                raise AwsUnreachable("S3 is unreachable.")
            return super().list_objects(bucket, prefix)

    plan, progress = sandbox.plan(), RecordingProgress()
    with pytest.raises(KeyboardInterrupt):
        sandbox.submit(plan, progress, aws=sandbox.client(Unlisted))
    assert any("S3 is unreachable" in note for note in progress.notes)
    sandbox.assert_nothing_left(plan)


def test_a_job_that_exceeds_ec2s_limits_creates_nothing(sandbox: EC2Sandbox) -> None:
    plan = sandbox.plan(job=sandbox.training(tags={"note": "x" * 256, "k" * 128: "v"}))
    sandbox.submit(plan)
    many = sandbox.plan(job=sandbox.training(tags={f"tag-{number}": "v" for number in range(45)}))
    before = sandbox.objects()
    sandbox.emulator.forget_requests()
    with pytest.raises(InvalidJob, match="EC2 allows 50"):
        sandbox.submit(many)
    assert sandbox.objects() == before
    assert "PutObject" not in sandbox.emulator.operations()
