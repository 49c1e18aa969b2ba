"""Endpoints serve real models: plain boto3, small handlers, and failures."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from botocore.exceptions import ClientError, EventStreamError

from gpuproof_emulator.clients import Clients
from gpuproof_emulator.execution.endpoints.container_spec import ContainerSpec, ModelData, ServingFailed
from gpuproof_emulator.execution.endpoints.model_server import GPUproofServer
from support.archives import archive
from support.aws_emulator import end_emulator, running_emulator, start_emulator
from support.cli_sandbox import gone, until
from support.emulator_context import make_context
from support.emulator_jobs import Account
from support.emulator_models import SERVING_IMAGE, configured, container, deployed, invoke, served, settled

pytestmark = pytest.mark.slow

HANDLER = """
import json, os

def model_fn(model_dir):
    print("loading from", model_dir)
    with open(os.path.join(model_dir, "factor.txt")) as file:
        return int(file.read())

def input_fn(body, content_type):
    assert content_type == "text/plain", content_type
    return int(body)

def predict_fn(value, model):
    return value * model

def output_fn(result, accept):
    return json.dumps({"result": result, "accept": accept, "greeting": os.environ.get("GREETING")}), accept
"""
CONTEXT = """
def model_fn(model_dir, context):
    return True

def transform_fn(model, body, content_type, accept, context):
    headers = context.get_all_request_header(0)
    said = headers.get("X-Amzn-SageMaker-Custom-Attributes", "")
    context.set_response_header(0, "X-Amzn-SageMaker-Custom-Attributes", said + ";seen")
    return "ok", "text/plain"
"""
PIECES = """
def model_fn(model_dir):
    return True

def transform_fn(model, body, content_type, accept):
    def pieces():
        for number in range(3):
            yield "piece %d\\n" % number
    return pieces(), "text/plain"
"""
WAITING = """
import os, time, boto3

def model_fn(model_dir):
    return boto3.client("s3")

def transform_fn(s3, body, content_type, accept):
    def pieces():
        yield "first"
        deadline = time.monotonic() + 300
        while not s3.list_objects_v2(Bucket=os.environ["BUCKET"], Prefix="go-on")["KeyCount"]:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        raise RuntimeError("halfway")
    return pieces(), "text/plain"
"""
LINGERING = """
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
    return "in the end", "text/plain"
"""
LATE = """
import os, time, boto3

def model_fn(model_dir):
    s3 = boto3.client("s3")
    while not s3.list_objects_v2(Bucket=os.environ["BUCKET"], Prefix="go-on")["KeyCount"]:
        time.sleep(0.05)
    return open(os.path.join(model_dir, "name.txt")).read()

def transform_fn(model, body, content_type, accept):
    return model, "text/plain"
"""
NAMED = """
import os

def model_fn(model_dir):
    return open(os.path.join(model_dir, "name.txt")).read()

def transform_fn(model, body, content_type, accept):
    return model, "text/plain"
"""


def test_a_model_is_served_by_its_handler(aws: Account) -> None:
    files = {"code/inference.py": HANDLER, "factor.txt": "7"}
    name = served(aws, container(aws, files, GREETING="hello"))
    answer = invoke(aws, name, "6", ContentType="text/plain", Accept="application/json")
    assert json.loads(answer["Body"]) == {"result": 42, "accept": "application/json", "greeting": "hello"}
    assert answer["ContentType"] == "application/json"
    assert answer["InvokedProductionVariant"] == "v1"
    until(lambda: _log_contains(aws, name, "loading from /opt/ml/model"), "the handler's line in the log")


def test_source_on_s3_is_laid_out_and_its_program_found(aws: Account) -> None:
    source = aws.put("source/sourcedir.tar.gz", archive(**{"serve_me.py": NAMED.encode()}))
    environment = {"SAGEMAKER_PROGRAM": "serve_me.py", "SAGEMAKER_SUBMIT_DIRECTORY": source}
    name = served(aws, container(aws, {"name.txt": "by source"}, **environment))
    assert invoke(aws, name)["Body"] == b"by source"


def test_source_in_the_model_is_found_where_the_sdk_puts_it(aws: Account) -> None:
    environment = {"SAGEMAKER_PROGRAM": "mine.py", "SAGEMAKER_SUBMIT_DIRECTORY": "/opt/ml/model/code"}
    name = served(aws, container(aws, {"code/mine.py": NAMED, "name.txt": "by model"}, **environment))
    assert invoke(aws, name)["Body"] == b"by model"


def test_a_model_that_lies_open_in_s3_is_served(aws: Account) -> None:
    aws.put("open/code/inference.py", NAMED)
    aws.put("open/name.txt", "open")
    where = {"S3Uri": f"s3://{aws.bucket}/open/", "S3DataType": "S3Prefix", "CompressionType": "None"}
    definition = {**container(aws, {}), "ModelDataSource": {"S3DataSource": where}}
    del definition["ModelDataUrl"]
    assert invoke(aws, served(aws, definition))["Body"] == b"open"


def test_custom_attributes_go_to_the_handler_and_back(aws: Account) -> None:
    name = served(aws, container(aws, {"code/inference.py": CONTEXT}))
    assert invoke(aws, name, "x", CustomAttributes="trace=1")["CustomAttributes"] == "trace=1;seen"


def test_an_answer_comes_in_pieces_as_an_event_stream(aws: Account) -> None:
    name = served(aws, container(aws, {"code/inference.py": PIECES}))
    answer = aws.client("sagemaker-runtime").invoke_endpoint_with_response_stream(
        EndpointName=name, Body=b"x"
    )
    assert answer["ContentType"] == "text/plain"
    assert answer["InvokedProductionVariant"] == "v1"
    parts = [part["PayloadPart"]["Bytes"] for part in answer["Body"]]
    assert b"".join(parts) == b"piece 0\npiece 1\npiece 2\n"


def test_pieces_come_as_they_are_made_and_a_broken_answer_is_an_error(aws: Account) -> None:
    name = served(aws, container(aws, {"code/inference.py": WAITING}, BUCKET=aws.bucket))
    runtime = aws.client("sagemaker-runtime")
    answer = runtime.invoke_endpoint_with_response_stream(EndpointName=name, Body=b"x")
    parts = iter(answer["Body"])
    assert next(parts)["PayloadPart"]["Bytes"] == b"first"
    # The handler waits for this object before it goes on, and then fails.
    aws.put("go-on")
    with pytest.raises(EventStreamError, match="ModelStreamError"):
        list(parts)


def test_a_handlers_failure_is_a_model_error_with_its_message(aws: Account) -> None:
    name = served(aws, container(aws, {"code/inference.py": HANDLER, "factor.txt": "7"}))
    runtime = aws.client("sagemaker-runtime", retries={"total_max_attempts": 1})
    with pytest.raises(runtime.exceptions.ModelError) as caught:
        runtime.invoke_endpoint(EndpointName=name, Body=b"six", ContentType="text/plain")
    response = caught.value.response
    assert response["OriginalStatusCode"] in (400, 500)
    assert response["OriginalMessage"]
    assert response["LogStreamArn"].startswith("arn:aws:logs:us-east-1:")
    assert f"/aws/sagemaker/Endpoints/{name}" in response["Error"]["Message"]


def test_a_variant_can_be_chosen_and_else_weights_decide(aws: Account) -> None:
    both = [container(aws, {"code/inference.py": NAMED, "name.txt": text}) for text in ("one", "two")]
    name = served(aws, *both)
    assert invoke(aws, name, TargetVariant="v2")["Body"] == b"two"
    assert invoke(aws, name, TargetVariant="v1")["InvokedProductionVariant"] == "v1"
    answers = Counter(invoke(aws, name)["InvokedProductionVariant"] for _ in range(60))
    assert set(answers) == {"v1", "v2"}
    with pytest.raises(ClientError, match="Variant v3 not found"):
        invoke(aws, name, TargetVariant="v3")


def test_a_model_that_cannot_be_loaded_fails_the_endpoint_and_logs_why(aws: Account) -> None:
    handler = 'def model_fn(model_dir):\n    raise ValueError("weights are of another model")\n'
    endpoint = deployed(aws, container(aws, {"code/inference.py": handler}))
    assert endpoint["EndpointStatus"] == "Failed"
    assert "production variant v1 did not pass the ping health check" in endpoint["FailureReason"]
    until(
        lambda: _log_contains(aws, endpoint["EndpointName"], "weights are of another model"),
        "the reason in the log",
    )
    with pytest.raises(ClientError, match="not found"):
        invoke(aws, endpoint["EndpointName"])


def test_a_container_that_takes_too_long_is_ended(aws: Account, tmp_path: Path) -> None:
    handler = "import time\n\ndef model_fn(model_dir):\n    time.sleep(300)\n"
    data = ModelData(container(aws, {"code/inference.py": handler})["ModelDataUrl"])
    # An emulator of its own for the server alone: the API takes no less than 60 seconds.
    context = make_context(tmp_path, clients=Clients(aws.emulator.url, aws.emulator.token))
    wanted = ContainerSpec(
        aws.name(), "v1", "us-east-1", SERVING_IMAGE, data, {}, None, tmp_path / "disks", startup_timeout=3.0
    )
    with pytest.raises(ServingFailed, match="did not pass the ping health check"):
        GPUproofServer(context).start(wanted)
    assert list((tmp_path / "disks").iterdir()) == []


@pytest.mark.parametrize("content", [None, b"no archive"])
def test_model_data_that_is_not_there_or_no_archive_fails_the_endpoint(
    aws: Account, content: bytes | None
) -> None:
    definition = container(aws, {})
    config = configured(aws, definition)
    key = definition["ModelDataUrl"].removeprefix(f"s3://{aws.bucket}/")
    aws.client("s3").delete_object(Bucket=aws.bucket, Key=key)
    if content is not None:
        aws.put(key, content)
    name = aws.name()
    aws.client("sagemaker").create_endpoint(EndpointName=name, EndpointConfigName=config)
    endpoint = settled(aws, name)
    assert endpoint["EndpointStatus"] == "Failed"
    what = "Failed to download model data" if content is None else "Failed to extract model data archive"
    assert endpoint["FailureReason"].startswith(what)
    assert definition["ModelDataUrl"] in endpoint["FailureReason"]


def test_a_model_without_its_data_is_not_made(aws: Account) -> None:
    definition = {**container(aws, {}), "ModelDataUrl": f"s3://{aws.bucket}/nowhere/model.tar.gz"}
    with pytest.raises(ClientError, match=r"Could not find model data at s3://.*/nowhere/model\.tar\.gz"):
        configured(aws, definition)


def test_an_update_changes_the_model_without_a_gap(aws: Account) -> None:
    name = served(aws, container(aws, {"code/inference.py": NAMED, "name.txt": "old"}))
    late = {"code/inference.py": LATE, "name.txt": "new"}
    config = configured(aws, container(aws, late, BUCKET=aws.bucket))
    aws.client("sagemaker").update_endpoint(EndpointName=name, EndpointConfigName=config)
    answers = [invoke(aws, name)["Body"]]
    assert answers == [b"old"]
    # The new model waits for this object before it has loaded.
    aws.put("go-on")

    def look() -> bool:
        answers.append(invoke(aws, name)["Body"])
        return answers[-1] == b"new"

    until(look, "the new model")
    assert set(answers) == {b"old", b"new"}
    assert settled(aws, name)["EndpointConfigName"] == config
    assert invoke(aws, name)["Body"] == b"new"


def test_an_emulator_that_ends_takes_containers_along_that_are_being_started(tmp_path: Path) -> None:
    handler = "import time\n\ndef model_fn(model_dir):\n    time.sleep(300)\n"
    with running_emulator(tmp_path) as emulator:
        aws = Account(emulator, emulator.bucket("models"), "starting")
        config = configured(aws, container(aws, {"code/inference.py": handler}))
        aws.client("sagemaker").create_endpoint(EndpointName="starting", EndpointConfigName=config)
        processes = until(lambda: _processes("starting"), "the container")
    assert emulator.process.returncode == 0
    assert all(gone(pid) for pid in processes)


def test_a_handler_runs_on_the_interpreter_of_its_images_framework(tmp_path: Path) -> None:
    fake = tmp_path / "python"
    fake.write_text(f'#!/bin/sh\necho chosen for TensorFlow\nexec {sys.executable} "$@"\n')
    fake.chmod(0o755)
    with running_emulator(tmp_path, pythons={"tensorflow": str(fake)}) as emulator:
        aws = Account(emulator, emulator.bucket("models"), "chosen")
        definition = container(aws, {"code/inference.py": NAMED, "name.txt": "x"})
        image = "763104351884.dkr.ecr.us-east-1.amazonaws.com/tensorflow-inference:2.19-gpu"
        name = served(aws, {**definition, "Image": image})
        until(lambda: _log_contains(aws, name, "chosen for TensorFlow"), "the interpreter's line in the log")


def test_a_deleted_endpoint_leaves_no_process(aws: Account) -> None:
    name = served(aws, container(aws, {"code/inference.py": NAMED, "name.txt": "x"}))
    processes = _processes(name)
    assert processes
    aws.client("sagemaker").delete_endpoint(EndpointName=name)
    assert all(gone(pid) for pid in processes)
    with pytest.raises(ClientError, match="Could not find endpoint"):
        aws.client("sagemaker").describe_endpoint(EndpointName=name)
    with pytest.raises(ClientError, match="not found"):
        invoke(aws, name)


def test_requests_that_run_when_an_endpoint_is_deleted_are_answered(aws: Account) -> None:
    name = served(aws, container(aws, {"code/inference.py": LINGERING}, BUCKET=aws.bucket))
    client = aws.client("sagemaker")
    with ThreadPoolExecutor(2) as pool:
        answer = pool.submit(invoke, aws, name, "x")
        until(lambda: aws.keys("began"), "the request")
        deleted = pool.submit(client.delete_endpoint, EndpointName=name)
        until(lambda: _refuses(aws, name), "the endpoint out of service")
        aws.put("go-on")
        assert answer.result(60)["Body"] == b"in the end"
        deleted.result(60)


def test_a_container_that_dies_is_started_again(aws: Account) -> None:
    name = served(aws, container(aws, {"code/inference.py": NAMED, "name.txt": "still here"}))
    servers = [pid for pid in _processes(name) if b"\0serve\0" in _command(pid)]
    assert servers
    for pid in servers:
        # Its parent's death may have ended it by now.
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert all(gone(pid) for pid in servers)

    def look() -> bool:
        try:
            return invoke(aws, name)["Body"] == b"still here"
        except ClientError:
            return False

    until(look, "the container's return")


def test_endpoints_come_back_with_the_emulator_and_their_processes_go_with_it(tmp_path: Path) -> None:
    emulator = start_emulator(tmp_path / "emulator")
    try:
        aws = Account(emulator, emulator.bucket("models"), "back")
        name = served(aws, container(aws, {"code/inference.py": NAMED, "name.txt": "again"}))
        processes = _processes(name)
        assert processes
    finally:
        emulator.process.send_signal(signal.SIGKILL)
        end_emulator(emulator)
    assert all(gone(pid) for pid in processes)
    with running_emulator(tmp_path) as emulator:
        aws = Account(emulator, "models", "back")
        assert settled(aws, name)["EndpointStatus"] == "InService"
        assert invoke(aws, name)["Body"] == b"again"
        processes = _processes(name)
    assert processes
    assert all(gone(pid) for pid in processes)


def _log_contains(aws: Account, endpoint: str, words: str) -> bool:
    found = aws.client("logs").filter_log_events(logGroupName=f"/aws/sagemaker/Endpoints/{endpoint}")
    return any(words in event["message"] for event in found["events"])


def _refuses(aws: Account, name: str) -> bool:
    try:
        invoke(aws, name, TargetVariant="none")
    except ClientError as error:
        return error.response["Error"]["Message"].startswith("Endpoint ")
    return False


def _processes(endpoint: str) -> list[int]:
    """Processes whose command line names a file on one of the endpoint's disks."""
    mark = f"/{endpoint}/v1/i-".encode()
    pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    return [pid for pid in pids if mark in _command(pid)]


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
