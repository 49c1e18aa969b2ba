"""The client against `gpuproof emulator`, with the faults that it can inject."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpuproof.backends.aws import Aws, AwsRefused, AwsUnreachable
from support.aws_emulator import RunningEmulator, running_emulator
from support.cli_sandbox import until

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningEmulator]:
    with running_emulator(tmp_path_factory.mktemp("aws")) as running:
        yield running


@pytest.fixture
def waited() -> list[float]:
    return []


@pytest.fixture
def aws(emulator: RunningEmulator, aws_environment: pytest.MonkeyPatch, waited: list[float]) -> Iterator[Aws]:
    for name, value in emulator.credentials.items():
        aws_environment.setenv(name, value)
    aws_environment.setenv("AWS_MAX_ATTEMPTS", "1")
    emulator.faults()
    yield Aws(sleep=waited.append, region="us-east-1")
    emulator.faults()


def job(emulator: RunningEmulator, name: str, instance: str = "ml.m5.large") -> dict[str, Any]:
    cluster = {"InstanceCount": 1, "InstanceType": instance, "VolumeSizeInGB": 1}
    return {
        "ProcessingJobName": name,
        "RoleArn": emulator.role,
        "AppSpecification": {
            "ImageUri": "123456789012.dkr.ecr.us-east-1.amazonaws.com/mine:1",
            "ContainerEntrypoint": ["sleep", "600"],
        },
        "ProcessingResources": {"ClusterConfig": cluster},
        "StoppingCondition": {"MaxRuntimeInSeconds": 3600},
        "Tags": [{"Key": "gpuproof:run", "Value": name}],
    }


def refused(emulator: RunningEmulator, aws: Aws, instance: str = "ml.m5.large") -> AwsRefused:
    with pytest.raises(AwsRefused) as caught:
        aws.call("sagemaker", "create_processing_job", **job(emulator, "refused", instance))
    assert "CreateProcessingJob" in caught.value.message
    assert caught.value.code in caught.value.message
    return caught.value


def test_a_job_whose_creation_lost_its_answer_is_found_and_can_be_looked_after(
    emulator: RunningEmulator, aws: Aws
) -> None:
    emulator.faults("drop,operation=CreateProcessingJob,when=after,count=1")
    with pytest.raises(AwsUnreachable) as caught:
        aws.call("sagemaker", "create_processing_job", **job(emulator, "lost"))
    assert caught.value.maybe_done
    found = aws.describe_job("processing", "lost")
    assert found is not None
    assert [
        list_job["ProcessingJobName"] for list_job in aws.list_jobs("processing", name_contains="lost")
    ] == ["lost"]
    arn = found["ProcessingJobArn"]
    assert aws.tags(arn)["gpuproof:run"] == "lost"
    assert dict(aws.tagged("gpuproof:run", ["lost"])).keys() == {arn}
    aws.stop_job("processing", "lost")

    def status() -> str:
        described = aws.describe_job("processing", "lost")
        assert described is not None
        return described["ProcessingJobStatus"]

    until(lambda: status() == "Stopped", "the job is stopped")
    aws.stop_job("processing", "lost")


def test_a_job_whose_creation_never_arrived_is_not_there(emulator: RunningEmulator, aws: Aws) -> None:
    emulator.faults("drop,operation=CreateProcessingJob,when=before,count=1")
    with pytest.raises(AwsUnreachable):
        aws.call("sagemaker", "create_processing_job", **job(emulator, "never"))
    assert aws.describe_job("processing", "never") is None


def test_a_missing_job_is_none_for_either_kind(aws: Aws) -> None:
    assert aws.describe_job("training", "nothing") is None
    assert aws.describe_job("processing", "nothing") is None
    with pytest.raises(AwsRefused):
        aws.stop_job("training", "nothing")


def test_a_role_that_may_not_be_passed_names_the_permission(emulator: RunningEmulator, aws: Aws) -> None:
    emulator.faults("access-denied,operation=CreateProcessingJob,action=iam:PassRole")
    error = refused(emulator, aws)
    assert error.is_permission
    assert "iam:PassRole on its role" in str(error.remedy)
    assert "gpuproof iam policy --user" in str(error.remedy)


def test_an_expired_sign_in_is_reported_in_every_service(emulator: RunningEmulator, aws: Aws) -> None:
    emulator.faults("expired-token")
    asked = [
        lambda: aws.call("sagemaker", "list_training_jobs"),
        lambda: list(aws.list_objects("data", "")),
        aws.caller,
        lambda: aws.role("x"),
        lambda: aws.log_streams("/aws/sagemaker/TrainingJobs", "x"),
    ]
    for ask in asked:
        with pytest.raises(AwsRefused, match="ExpiredToken") as caught:
            ask()
        assert "aws sso login" in str(caught.value.remedy)


def test_a_wrong_clock_is_reported(emulator: RunningEmulator, aws: Aws) -> None:
    emulator.faults("clock-skew,operation=CreateProcessingJob")
    assert "clock" in str(refused(emulator, aws).remedy)


def test_a_quota_of_zero_gets_the_command_that_requests_it(emulator: RunningEmulator, aws: Aws) -> None:
    emulator.faults("quota,instance=ml.g5.*")
    error = refused(emulator, aws, "ml.g5.xlarge")
    assert error.is_quota
    assert "ml.g5.xlarge for processing job usage" in error.message
    assert "aws service-quotas request-service-quota-increase" in str(error.remedy)


def test_no_capacity_suggests_another_type(emulator: RunningEmulator, aws: Aws) -> None:
    emulator.faults("capacity,at=creation")
    error = refused(emulator, aws, "ml.g5.xlarge")
    assert error.is_capacity
    assert "--fallback" in str(error.remedy)


def test_throttling_in_every_service_is_waited_out(
    emulator: RunningEmulator, aws: Aws, waited: list[float], tmp_path: Path
) -> None:
    if aws.bucket_region("throttled") is None:
        emulator.bucket("throttled")
    file = tmp_path / "file"
    file.write_bytes(b"content")
    asked = [
        lambda: aws.upload_file("throttled", "file", file),
        lambda: aws.copy_object("throttled", "file", "copy"),
        lambda: list(aws.list_objects("throttled", "")),
        lambda: aws.delete_objects("throttled", ["file"]),
        aws.caller,
        lambda: aws.role("x"),
        lambda: aws.describe_job("training", "x"),
        lambda: aws.log_streams("/aws/sagemaker/TrainingJobs", "x"),
        lambda: list(aws.tagged("gpuproof:run")),
    ]
    for ask in asked:
        emulator.faults("throttling,count=2")
        before = len(waited)
        ask()
        assert len(waited) == before + 2
