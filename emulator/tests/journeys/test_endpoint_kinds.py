"""Asynchronous, serverless and multi-model endpoints, data capture, metrics and changes of variants, with plain boto3."""

from __future__ import annotations

import base64
import json
import re
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
from botocore.exceptions import ClientError

from support.archives import archive
from support.cli_sandbox import until
from support.emulator_jobs import Account
from support.emulator_models import SERVING_IMAGE, configured, container, invoke, served, settled

pytestmark = pytest.mark.slow

NAMED = """
import os

def model_fn(model_dir):
    return open(os.path.join(model_dir, "name.txt")).read()

def transform_fn(model, body, content_type, accept):
    if body in (b"fail", "fail"):
        raise RuntimeError("the handler has failed")
    return "%s:%s" % (model, body.decode() if isinstance(body, bytes) else body), "text/csv"
"""
WAITING = """
import os, time, boto3

def model_fn(model_dir):
    return boto3.client("s3")

def transform_fn(s3, body, content_type, accept):
    bucket = os.environ["BUCKET"]
    s3.put_object(Bucket=bucket, Key="began", Body=b"")
    deadline = time.monotonic() + 300
    while not s3.list_objects_v2(Bucket=bucket, Prefix="go-on")["KeyCount"]:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return "done", "text/plain"
"""
SERVERLESS = {"MemorySizeInMB": 2048, "MaxConcurrency": 1}


def test_an_asynchronous_endpoint_writes_results_and_failures_to_s3_and_notifies(aws: Account) -> None:
    sns, sqs = aws.client("sns"), aws.client("sqs")
    topics = {}
    for kind in ("SuccessTopic", "ErrorTopic"):
        topics[kind] = sns.create_topic(Name=f"{aws.name()}")["TopicArn"]
        queue = sqs.create_queue(QueueName=f"{aws.prefix}-{kind}")["QueueUrl"]
        arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        sns.subscribe(TopicArn=topics[kind], Protocol="sqs", Endpoint=arn)
    output = {
        "S3OutputPath": f"s3://{aws.bucket}/out",
        "S3FailurePath": f"s3://{aws.bucket}/failures",
        "NotificationConfig": topics,
    }
    name = _asynchronous(aws, container(aws, {"code/inference.py": NAMED, "name.txt": "m"}), output)
    runtime = aws.client("sagemaker-runtime")
    where = aws.put("in/one.txt", "hello")
    answer = runtime.invoke_endpoint_async(
        EndpointName=name, InputLocation=where, ContentType="text/plain", InferenceId="mine"
    )
    assert answer["ResponseMetadata"]["HTTPStatusCode"] == 202
    assert answer["InferenceId"] == "mine"
    assert _object(aws, answer["OutputLocation"]) == "m:hello"
    message = _message(sqs, f"{aws.prefix}-SuccessTopic")
    assert message["invocationStatus"] == "Completed"
    assert message["responseParameters"]["outputLocation"] == answer["OutputLocation"]
    assert message["inferenceId"] == "mine"

    failing = runtime.invoke_endpoint_async(EndpointName=name, InputLocation=aws.put("in/two.txt", "fail"))
    assert "the handler raised RuntimeError" in _object(aws, failing["FailureLocation"])
    assert _message(sqs, f"{aws.prefix}-ErrorTopic")["invocationStatus"] == "Failed"
    missing = runtime.invoke_endpoint_async(EndpointName=name, InputLocation=f"s3://{aws.bucket}/nothing")
    assert "Failed to download the input" in _object(aws, missing["FailureLocation"])

    with pytest.raises(ClientError, match="Use InvokeEndpointAsync"):
        invoke(aws, name)
    with pytest.raises(ClientError, match="is not the address of an object in S3"):
        runtime.invoke_endpoint_async(EndpointName=name, InputLocation="https://example.com/x")


def test_the_queue_of_an_asynchronous_endpoint_waits_while_it_has_no_instances(aws: Account) -> None:
    output = {"S3OutputPath": f"s3://{aws.bucket}/out"}
    name = _asynchronous(aws, container(aws, {"code/inference.py": NAMED, "name.txt": "m"}), output)
    client = aws.client("sagemaker")

    def scale(count: int) -> None:
        change = {"VariantName": "v1", "DesiredInstanceCount": count}
        client.update_endpoint_weights_and_capacities(EndpointName=name, DesiredWeightsAndCapacities=[change])
        until(
            lambda: settled(aws, name)["ProductionVariants"][0]["CurrentInstanceCount"] == count, "the count"
        )

    scale(0)
    answer = aws.client("sagemaker-runtime").invoke_endpoint_async(
        EndpointName=name, InputLocation=aws.put("in/one.txt", "later")
    )
    assert "FailureLocation" not in answer
    assert aws.keys("out/") == []
    scale(1)
    assert _object(aws, answer["OutputLocation"]) == "m:later"


def test_a_serverless_endpoint_starts_with_the_first_request_and_throttles(aws: Account) -> None:
    definition = container(aws, {"code/inference.py": WAITING}, BUCKET=aws.bucket)
    name = _serverless(aws, definition)
    endpoint = settled(aws, name)
    (variant,) = endpoint["ProductionVariants"]
    assert variant["CurrentServerlessConfig"] == SERVERLESS
    # It was started once for its health check, and is no longer running.
    streams = _streams(aws, name)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(invoke, aws, name, "x")
        until(lambda: aws.keys("began"), "the first request")
        assert len(_streams(aws, name)) == len(streams) + 1
        runtime = aws.client("sagemaker-runtime", retries={"total_max_attempts": 1})
        with pytest.raises(ClientError, match="ThrottlingException") as caught:
            runtime.invoke_endpoint(EndpointName=name, Body=b"y")
        assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 429
        aws.put("go-on")
        assert first.result(60)["Body"] == b"done"
    with pytest.raises(ClientError, match="exceeded 4194304 bytes"):
        invoke(aws, name, b"x" * (4 << 20) + b"x")


def test_the_client_of_a_multi_model_endpoint_is_told_why_a_model_cannot_be_loaded(aws: Account) -> None:
    # What a training job saves: weights, and no code that says which model they are for.
    aws.put("trained/model.tar.gz", archive(**{"notes.txt": b"weights"}))
    definition = {"Image": SERVING_IMAGE, "Mode": "MultiModel", "ModelDataUrl": f"s3://{aws.bucket}/trained/"}
    name = served(aws, definition)
    with pytest.raises(ClientError, match=r"cannot be loaded: .* no handler .* It contains notes\.txt"):
        invoke(aws, name, "a", TargetModel="model.tar.gz")


def test_a_multi_model_endpoint_serves_a_torchscript_archive_without_code(
    aws: Account, tmp_path: Path
) -> None:
    # As AWS's container does, whose own model_fn calls torch.jit.load; the variable is the one that SDK v2 sets.
    network = torch.nn.Linear(1, 1)
    network.load_state_dict({"weight": torch.tensor([[2.0]]), "bias": torch.tensor([1.0])})
    torch.jit.trace(network, torch.zeros(1, 1)).save(str(tmp_path / "model.pth"))
    aws.put("scripted/model.tar.gz", archive(**{"model.pth": (tmp_path / "model.pth").read_bytes()}))
    definition = {
        "Image": SERVING_IMAGE,
        "Mode": "MultiModel",
        "ModelDataUrl": f"s3://{aws.bucket}/scripted/",
        "Environment": {
            "SAGEMAKER_PROGRAM": "inference.py",
            "SAGEMAKER_SUBMIT_DIRECTORY": "/opt/ml/model/code",
        },
    }
    name = served(aws, definition)
    response = invoke(aws, name, "[[3.0]]", TargetModel="model.tar.gz", ContentType="application/json")
    assert json.loads(response["Body"]) == [[7.0]]


def test_a_multi_model_endpoint_loads_the_models_that_are_invoked(aws: Account) -> None:
    for number in ("one", "two"):
        files = {"code/inference.py": NAMED.encode(), "name.txt": number.encode()}
        aws.put(f"many/{number}.tar.gz", archive(**files))
    definition = {"Image": SERVING_IMAGE, "Mode": "MultiModel", "ModelDataUrl": f"s3://{aws.bucket}/many/"}
    name = served(aws, definition)
    assert invoke(aws, name, "a", TargetModel="one.tar.gz")["Body"] == b"one:a"
    assert invoke(aws, name, "b", TargetModel="two.tar.gz")["Body"] == b"two:b"
    assert invoke(aws, name, "c", TargetModel="one.tar.gz")["Body"] == b"one:c"
    # A model that is uploaded later needs no change of the endpoint.
    later = {"code/inference.py": NAMED.encode(), "name.txt": b"three"}
    aws.put("many/sub/three.tar.gz", archive(**later))
    assert invoke(aws, name, "d", TargetModel="sub/three.tar.gz")["Body"] == b"three:d"
    with pytest.raises(
        ClientError, match=r"Failed to download model data\(bucket: .*, key: many/none.tar.gz\)"
    ):
        invoke(aws, name, "x", TargetModel="none.tar.gz")
    with pytest.raises(ClientError, match="TargetModel is required"):
        invoke(aws, name, "x")


def test_captured_data_is_in_s3_as_json_lines(aws: Account) -> None:
    capture = {
        "EnableCapture": True,
        "InitialSamplingPercentage": 100,
        "DestinationS3Uri": f"s3://{aws.bucket}/captured",
        "CaptureOptions": [{"CaptureMode": "Input"}, {"CaptureMode": "Output"}],
    }
    name = _endpoint(
        aws, container(aws, {"code/inference.py": NAMED, "name.txt": "m"}), DataCaptureConfig=capture
    )
    assert settled(aws, name)["DataCaptureConfig"]["CaptureStatus"] == "Started"
    invoke(aws, name, "1,2", ContentType="text/csv", InferenceId="mine")
    invoke(aws, name, b"\x00\x01", ContentType="application/x-npy")
    keys = until(lambda: len(found := aws.keys("captured/")) == 2 and found, "the captured data")
    for key in keys:
        assert re.fullmatch(
            rf"captured/{name}/v1/\d{{4}}/\d\d/\d\d/\d\d/\d\d-\d\d-\d{{3}}-[0-9a-f-]+\.jsonl", key
        )
    lines = [json.loads(aws.get(key)) for key in keys]
    (text,) = [line for line in lines if line["eventMetadata"].get("inferenceId") == "mine"]
    assert text["captureData"]["endpointInput"] == {
        "observedContentType": "text/csv",
        "mode": "INPUT",
        "data": "1,2",
        "encoding": "CSV",
    }
    assert text["captureData"]["endpointOutput"]["data"] == "m:1,2"
    (binary,) = [line for line in lines if line is not text]
    taken = binary["captureData"]["endpointInput"]
    assert (taken["encoding"], base64.b64decode(taken["data"])) == ("BASE64", b"\x00\x01")


def test_invocations_are_in_cloudwatch(aws: Account) -> None:
    start = datetime.now(UTC) - timedelta(seconds=5)
    name = served(aws, container(aws, {"code/inference.py": NAMED, "name.txt": "m"}))
    for _ in range(3):
        invoke(aws, name, "x")
    with pytest.raises(ClientError):
        invoke(aws, name, "fail")
    sums = {
        metric: _statistics(aws, name, metric, start)
        for metric in (
            "Invocations",
            "Invocation4XXErrors",
            "Invocation5XXErrors",
            "ModelLatency",
            "OverheadLatency",
        )
    }
    # boto3 repeats a ModelError, so that there is at least one failure.
    assert sums["Invocation5XXErrors"]["Sum"] >= 1
    assert sums["Invocations"]["Sum"] == 3 + sums["Invocation5XXErrors"]["Sum"]
    assert sums["Invocation4XXErrors"]["Sum"] == 0
    assert sums["ModelLatency"]["Minimum"] > 100  # microseconds
    assert sums["OverheadLatency"]["Minimum"] > 0
    query = {
        "Id": "q",
        "MetricStat": {
            "Metric": {
                "Namespace": "AWS/SageMaker",
                "MetricName": "Invocations",
                "Dimensions": _dimensions(name),
            },
            "Period": 3600,
            "Stat": "Sum",
        },
    }
    found = aws.client("cloudwatch").get_metric_data(
        MetricDataQueries=[query], StartTime=start, EndTime=datetime.now(UTC) + timedelta(minutes=1)
    )
    assert found["MetricDataResults"][0]["Values"] == [sums["Invocations"]["Sum"]]


def test_an_update_can_retain_weights_and_counts(aws: Account) -> None:
    one = container(aws, {"code/inference.py": NAMED, "name.txt": "old"})
    name = served(aws, one)
    client = aws.client("sagemaker")
    change = {"VariantName": "v1", "DesiredWeight": 4.0, "DesiredInstanceCount": 3}
    client.update_endpoint_weights_and_capacities(EndpointName=name, DesiredWeightsAndCapacities=[change])
    until(lambda: settled(aws, name)["ProductionVariants"][0]["CurrentInstanceCount"] == 3, "the count")
    config = configured(aws, container(aws, {"code/inference.py": NAMED, "name.txt": "new"}))
    client.update_endpoint(
        EndpointName=name,
        EndpointConfigName=config,
        RetainAllVariantProperties=True,
        ExcludeRetainedVariantProperties=[{"VariantPropertyType": "DesiredWeight"}],
    )
    until(lambda: settled(aws, name)["EndpointConfigName"] == config, "the update")
    (variant,) = settled(aws, name)["ProductionVariants"]
    assert (variant["CurrentInstanceCount"], variant["CurrentWeight"]) == (3, 1.0)
    assert invoke(aws, name, "x")["Body"] == b"new:x"
    with pytest.raises(ClientError, match="can be 0 only for asynchronous endpoints"):
        client.update_endpoint_weights_and_capacities(
            EndpointName=name, DesiredWeightsAndCapacities=[{"VariantName": "v1", "DesiredInstanceCount": 0}]
        )


@pytest.mark.parametrize(
    ("fault", "said"), [("capacity", "Unable to provision"), ("no-image", "cannot pull it")]
)
def test_faults_that_stop_a_jobs_start_stop_an_endpoints_too(aws: Account, fault: str, said: str) -> None:
    config = configured(aws, container(aws, {"code/inference.py": NAMED, "name.txt": "m"}))
    name = aws.name()
    aws.emulator.faults(f"{fault},name={name}")
    aws.client("sagemaker").create_endpoint(EndpointName=name, EndpointConfigName=config)
    endpoint = settled(aws, name)
    assert endpoint["EndpointStatus"] == "Failed"
    assert said in endpoint["FailureReason"]


def _asynchronous(aws: Account, definition: dict[str, Any], output: dict[str, Any]) -> str:
    return _endpoint(aws, definition, AsyncInferenceConfig={"OutputConfig": output})


def _serverless(aws: Account, definition: dict[str, Any]) -> str:
    return _endpoint(aws, definition, {"ServerlessConfig": SERVERLESS})


def _endpoint(
    aws: Account, definition: dict[str, Any], hardware: dict[str, Any] | None = None, **members: Any
) -> str:
    client, name = aws.client("sagemaker"), aws.name()
    client.create_model(ModelName=name, ExecutionRoleArn=aws.emulator.role, PrimaryContainer=definition)
    hardware = hardware or {"InstanceType": "ml.g5.xlarge", "InitialInstanceCount": 1}
    variant = {"VariantName": "v1", "ModelName": name, **hardware}
    client.create_endpoint_config(EndpointConfigName=name, ProductionVariants=[variant], **members)
    client.create_endpoint(EndpointName=name, EndpointConfigName=name)
    endpoint = settled(aws, name)
    assert endpoint["EndpointStatus"] == "InService", endpoint.get("FailureReason")
    return name


def _object(aws: Account, uri: str) -> str:
    key = uri.removeprefix(f"s3://{aws.bucket}/")
    until(lambda: aws.keys(key), uri)
    return aws.get(key)


def _message(sqs: Any, queue: str) -> dict[str, Any]:
    url = sqs.get_queue_url(QueueName=queue)["QueueUrl"]
    body = until(lambda: sqs.receive_message(QueueUrl=url).get("Messages"), "the notification")[0]["Body"]
    return json.loads(json.loads(body)["Message"])


def _streams(aws: Account, endpoint: str) -> list[str]:
    group = f"/aws/sagemaker/Endpoints/{endpoint}"
    found = aws.client("logs").describe_log_streams(logGroupName=group)
    return [stream["logStreamName"] for stream in found["logStreams"]]


def _dimensions(endpoint: str) -> list[dict[str, str]]:
    return [{"Name": "EndpointName", "Value": endpoint}, {"Name": "VariantName", "Value": "v1"}]


def _statistics(aws: Account, endpoint: str, metric: str, start: datetime) -> dict[str, float]:
    found = aws.client("cloudwatch").get_metric_statistics(
        Namespace="AWS/SageMaker",
        MetricName=metric,
        Dimensions=_dimensions(endpoint),
        StartTime=start,
        EndTime=datetime.now(UTC) + timedelta(minutes=1),
        Period=3600,
        Statistics=["Sum", "Minimum"],
    )
    (point,) = found["Datapoints"]
    return point
