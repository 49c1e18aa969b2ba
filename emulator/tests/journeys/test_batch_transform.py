"""Batch transform jobs run, with plain boto3."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from support.cli_sandbox import until
from support.emulator_jobs import Account
from support.emulator_models import container

pytestmark = pytest.mark.slow

HANDLER = """
import os, time

def model_fn(model_dir):
    return "m"

def transform_fn(model, body, content_type, accept):
    text = body if isinstance(body, str) else body.decode()
    if "fail" in text:
        raise RuntimeError("a bug")
    if "wait" in text:
        time.sleep(60)
    assert os.environ["SAGEMAKER_BATCH"] == "true"
    return "%s=%d" % (os.environ["NAME"], sum(float(word) for word in text.strip().replace("\\n", ",").split(","))), "text/csv"
"""


def test_each_line_is_a_request_and_each_object_a_result(aws: Account) -> None:
    aws.put("in/a.csv", "1,2\n3,4\n")
    aws.put("in/sub/b.csv", "5\n")
    job = _run(aws, {"SplitType": "Line"}, BatchStrategy="SingleRecord", MaxConcurrentTransforms=2)
    assert job["TransformJobStatus"] == "Completed", job.get("FailureReason")
    assert job["TransformStartTime"] <= job["TransformEndTime"]
    assert sorted(aws.keys("out/")) == ["out/a.csv.out", "out/sub/b.csv.out"]
    assert aws.get("out/a.csv.out") == "n=3\nn=7\n"
    assert aws.get("out/sub/b.csv.out") == "n=5\n"
    streams = aws.client("logs").describe_log_streams(
        logGroupName="/aws/sagemaker/TransformJobs", logStreamNamePrefix=f"{job['TransformJobName']}/"
    )["logStreams"]
    assert len(streams) == 2  # the container's, and SageMaker's own
    assert job["TransformJobName"] in [
        item["TransformJobName"]
        for item in aws.client("sagemaker").list_transform_jobs(StatusEquals="Completed")[
            "TransformJobSummaries"
        ]
    ]


def test_a_whole_object_is_one_request_on_several_instances(aws: Account) -> None:
    aws.put("in/a.csv", "1,2\n3,4\n")
    job = _run(aws, {}, instances=2)
    assert job["TransformJobStatus"] == "Completed", job.get("FailureReason")
    assert aws.get("out/a.csv.out") == "n=10\n"


def test_a_failing_handler_fails_the_job_and_the_log_says_which_object(aws: Account) -> None:
    aws.put("in/a.csv", "fail\n")
    job = _run(aws, {"SplitType": "Line"})
    assert job["TransformJobStatus"] == "Failed"
    assert job["FailureReason"] == "AlgorithmError: See job logs for more information"
    assert aws.keys("out/") == []
    events = aws.client("logs").get_log_events(
        logGroupName="/aws/sagemaker/TransformJobs", logStreamName=f"{job['TransformJobName']}/data-log"
    )["events"]
    assert any(
        "in/a.csv: Bad HTTP status received from algorithm: 500" in event["message"] for event in events
    )


def test_what_cannot_be_read_or_is_too_large_fails_the_job(aws: Account) -> None:
    job = _run(aws, {})
    assert job["TransformJobStatus"] == "Failed"
    assert "No S3 objects found" in job["FailureReason"]
    aws.put("in/a.csv", "1" * 1_000_001)
    job = _run(aws, {}, MaxPayloadInMB=1)
    assert job["FailureReason"] == "ClientError: See job logs for more information"


def test_a_job_is_stopped(aws: Account) -> None:
    aws.put("in/a.csv", "wait\n")
    name = _start(aws, {})
    client = aws.client("sagemaker")
    until(
        lambda: "TransformStartTime" in client.describe_transform_job(TransformJobName=name),
        "the job's start",
    )
    client.stop_transform_job(TransformJobName=name)
    assert _ended(aws, name)["TransformJobStatus"] == "Stopped"
    assert aws.keys("out/") == []


@pytest.mark.parametrize(
    ("source", "changes", "said"),
    [
        ({"SplitType": "RecordIO"}, {}, "TransformInput.SplitType=RecordIO"),
        ({}, {"DataProcessing": {"JoinSource": "Input"}}, "DataProcessing.JoinSource=Input"),
        ({}, {"DataProcessing": {"OutputFilter": "$.id"}}, "DataProcessing.OutputFilter"),
        ({}, {"DataCaptureConfig": {"DestinationS3Uri": "s3://b/c"}}, "DataCaptureConfig"),
    ],
)
def test_what_is_not_supported_is_rejected_by_name(
    aws: Account, source: dict[str, Any], changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(ClientError, match="This emulator does not support") as caught:
        _start(aws, source, **changes)
    assert said in str(caught.value)


def test_a_missing_model_and_an_exceeded_quota_are_rejected(aws: Account) -> None:
    with pytest.raises(ClientError, match="Could not find model"):
        _start(aws, {}, ModelName="no-such-model")
    aws.emulator.quotas({"ml.g5.2xlarge for transform job usage": 0})
    with pytest.raises(ClientError, match="for transform job usage"):
        _start(aws, {}, instance_type="ml.g5.2xlarge")
    aws.emulator.quotas({"ml.g5.2xlarge for transform job usage": 500})


def _run(aws: Account, source: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return _ended(aws, _start(aws, source, **changes))


def _start(
    aws: Account,
    source: dict[str, Any],
    instances: int = 1,
    instance_type: str = "ml.g5.xlarge",
    **changes: Any,
) -> str:
    client, name = aws.client("sagemaker"), aws.name()
    client.create_model(
        ModelName=name,
        ExecutionRoleArn=aws.emulator.role,
        PrimaryContainer=container(aws, {"code/inference.py": HANDLER}),
    )
    request = {
        "TransformJobName": name,
        "ModelName": name,
        "Environment": {"NAME": "n"},
        "TransformInput": {
            "DataSource": {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": f"s3://{aws.bucket}/in/"}},
            "ContentType": "text/csv",
            **source,
        },
        "TransformOutput": {"S3OutputPath": f"s3://{aws.bucket}/out", "AssembleWith": "Line"},
        "TransformResources": {"InstanceType": instance_type, "InstanceCount": instances},
        **changes,
    }
    client.create_transform_job(**request)
    return name


def _ended(aws: Account, name: str) -> dict[str, Any]:
    client = aws.client("sagemaker")

    def poll() -> dict[str, Any] | None:
        job = client.describe_transform_job(TransformJobName=name)
        return job if job["TransformJobStatus"] not in ("InProgress", "Stopping") else None

    return until(poll, f"the end of {name}")
