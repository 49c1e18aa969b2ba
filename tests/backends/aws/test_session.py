"""Which requests are retried, for how long, and which never are."""

from __future__ import annotations

import socket
import threading

import pytest

from gpuproof.backends.aws import Aws, AwsRefused, AwsUnreachable
from gpuproof.errors import UsageError
from support.faulty_aws import FakeResponse, FaultyAws, disconnect, json_answer, json_error, xml_error

pytestmark = pytest.mark.slow

JOB = {
    "ProcessingJobName": "job",
    "RoleArn": "arn:aws:iam::123456789012:role/jobs",
    "AppSpecification": {"ImageUri": "image"},
    "ProcessingResources": {
        "ClusterConfig": {"InstanceCount": 1, "InstanceType": "ml.m5.large", "VolumeSizeInGB": 1}
    },
}
MADE = json_answer({"ProcessingJobArn": "arn:aws:sagemaker:us-east-1:123456789012:processing-job/job"})
NONE = json_answer({"TrainingJobSummaries": []})


def test_a_throttled_creation_is_retried(faulty: FaultyAws) -> None:
    waited: list[float] = []
    faulty.fault("CreateProcessingJob", json_error("ThrottlingException", "Rate exceeded"), times=3)
    faulty.fault("CreateProcessingJob", MADE)
    aws = Aws(sleep=waited.append, region="us-east-1")
    assert aws.call("sagemaker", "create_processing_job", **JOB)["ProcessingJobArn"]
    assert faulty.count("CreateProcessingJob") == 4
    assert waited == sorted(waited)


def test_waits_are_spread_so_that_callers_do_not_come_back_together(faulty: FaultyAws) -> None:
    waits: list[tuple[float, ...]] = []
    for _ in range(3):
        waited: list[float] = []
        faulty.fault("ListTrainingJobs", json_error("ThrottlingException"), times=4)
        faulty.fault("ListTrainingJobs", NONE)
        Aws(sleep=waited.append, region="us-east-1").call("sagemaker", "list_training_jobs")
        waits.append(tuple(waited))
    assert len(set(waits)) == 3


def test_a_creation_whose_connection_is_lost_is_sent_once_and_may_have_succeeded(
    faulty: FaultyAws, aws: Aws, waited: list[float]
) -> None:
    faulty.fault("CreateProcessingJob", disconnect(), times=None)
    with pytest.raises(AwsUnreachable, match="CreateProcessingJob") as caught:
        aws.call("sagemaker", "create_processing_job", **JOB)
    assert caught.value.maybe_done
    assert "check before you try again" in str(caught.value.remedy)
    assert faulty.count("CreateProcessingJob") == 1
    assert waited == []


def test_botocore_does_not_retry_a_creation_either(
    faulty: FaultyAws, aws: Aws, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "5")
    faulty.fault("CreateProcessingJob", disconnect(), times=None)
    with pytest.raises(AwsUnreachable):
        aws.call("sagemaker", "create_processing_job", **JOB)
    assert faulty.count("CreateProcessingJob") == 1


def test_a_fault_of_awss_while_creating_may_have_made_it(faulty: FaultyAws, aws: Aws) -> None:
    faulty.fault("CreateProcessingJob", json_error("InternalFailure", status=500), times=None)
    with pytest.raises(AwsRefused, match="InternalFailure") as caught:
        aws.call("sagemaker", "create_processing_job", **JOB)
    assert caught.value.maybe_done
    assert faulty.count("CreateProcessingJob") == 1


def test_a_refused_creation_was_certainly_not_made(faulty: FaultyAws, aws: Aws) -> None:
    faulty.fault("CreateProcessingJob", json_error("ValidationException"))
    with pytest.raises(AwsRefused) as caught:
        aws.call("sagemaker", "create_processing_job", **JOB)
    assert not caught.value.maybe_done


def test_a_creation_that_never_connected_was_certainly_not_made(aws_environment: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    aws_environment.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
    with pytest.raises(AwsUnreachable) as caught:
        Aws(sleep=lambda _: None, region="us-east-1").call("sagemaker", "create_processing_job", **JOB)
    assert not caught.value.maybe_done


def test_a_look_whose_connection_is_lost_is_taken_again(
    faulty: FaultyAws, aws: Aws, waited: list[float]
) -> None:
    faulty.fault("ListTrainingJobs", NONE)
    list(aws.list_jobs("training"))
    faulty.fault("ListTrainingJobs", disconnect(), times=3)
    faulty.fault("ListTrainingJobs", NONE)
    assert list(aws.list_jobs("training")) == []
    assert len(waited) == 3


def test_a_worker_that_never_answered_is_not_waited_for(
    faulty: FaultyAws, aws: Aws, waited: list[float]
) -> None:
    faulty.fault("ListTrainingJobs", disconnect(), times=None)
    with pytest.raises(AwsUnreachable) as caught:
        list(aws.list_jobs("training"))
    assert not caught.value.maybe_done
    assert waited == []


def test_a_connection_that_stays_lost_is_given_up_after_half_a_minute(
    faulty: FaultyAws, aws: Aws, waited: list[float]
) -> None:
    faulty.fault("ListTrainingJobs", NONE)
    list(aws.list_jobs("training"))
    faulty.fault("ListTrainingJobs", disconnect(), times=None)
    with pytest.raises(AwsUnreachable, match="ListTrainingJobs"):
        list(aws.list_jobs("training"))
    assert 30 <= sum(waited) < 50


def test_a_server_error_while_reading_is_retried_or_reported(
    faulty: FaultyAws, aws: Aws, waited: list[float]
) -> None:
    faulty.fault("ListTrainingJobs", json_error("ServiceUnavailable", status=503))
    faulty.fault("ListTrainingJobs", NONE)
    assert list(aws.list_jobs("training")) == []
    faulty.fault("ListTrainingJobs", json_error("ServiceUnavailable", status=503), times=None)
    with pytest.raises(AwsRefused, match="ServiceUnavailable") as caught:
        list(aws.list_jobs("training"))
    assert "internal error of AWS" in str(caught.value.remedy)
    assert sum(waited) < 20


def test_a_web_page_instead_of_a_response_is_reported_by_its_title(faulty: FaultyAws, aws: Aws) -> None:
    page = xml_error("x")
    page.body = b"<html><title>502 Bad Gateway</title><body>long</body></html>"
    page.status = 502
    faulty.fault("ListTrainingJobs", page, times=None)
    with pytest.raises(AwsRefused, match="502: Bad Gateway") as caught:
        list(aws.list_jobs("training"))
    assert "<" not in caught.value.message


@pytest.mark.parametrize("once", [False, True])
def test_a_response_that_cannot_be_parsed_is_as_good_as_none(
    faulty: FaultyAws, aws: Aws, *, once: bool
) -> None:
    page = FakeResponse(
        200, b"<html><title>Sign in to the network</title><br></html>", {"Content-Type": "text/html"}
    )
    operation = "RunInstances" if once else "DescribeSubnets"
    faulty.fault(operation, page, times=None)
    with pytest.raises(AwsUnreachable, match=f"{operation}: Sign in to the network") as caught:
        if once:
            aws.run_instances({"ImageId": "ami-1", "MinCount": 1, "MaxCount": 1})
        else:
            aws.subnets()
    assert caught.value.maybe_done == once
    assert "not AWS's response" in str(caught.value.remedy)


def test_clients_are_made_once_though_many_threads_request(
    faulty: FaultyAws, aws: Aws, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[object] = []
    original = Aws._make_client
    monkeypatch.setattr(Aws, "_make_client", lambda self, *a: made.append(a) or original(self, *a))
    threads = [threading.Thread(target=aws.caller) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1
    assert faulty.count("GetCallerIdentity") == 8


def test_a_request_keeps_awss_id_for_its_support(faulty: FaultyAws, aws: Aws) -> None:
    faulty.fault("CreateProcessingJob", json_error("ValidationException", **{"x-amzn-RequestId": "abc-1"}))
    with pytest.raises(AwsRefused) as caught:
        aws.call("sagemaker", "create_processing_job", **JOB)
    assert caught.value.request_id == "abc-1"


def test_without_a_region_the_remedy_sets_one(aws_environment: pytest.MonkeyPatch) -> None:
    aws_environment.delenv("AWS_DEFAULT_REGION")
    with pytest.raises(UsageError, match="region") as caught:
        _ = Aws().region
    assert "AWS_REGION" in str(caught.value.remedy)
    with pytest.raises(UsageError, match="region"):
        list(Aws().list_jobs("training"))


def test_a_region_that_does_not_exist_is_named_with_the_one_that_was_meant(
    aws_environment: pytest.MonkeyPatch,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    aws_environment.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
    with pytest.raises(AwsUnreachable) as caught:
        list(Aws(region="us-esat-1").list_jobs("training"))
    assert "There is no region us-esat-1: did you mean us-east-1?" in str(caught.value.remedy)
