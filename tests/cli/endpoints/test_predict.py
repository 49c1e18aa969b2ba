"""`gpuproof predict` against endpoints of an emulator and a local server, over HTTP."""

from __future__ import annotations

import contextlib
import json
import signal
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.archives import archive
from support.aws_emulator import RunningEmulator, running_emulator
from support.cli_sandbox import CliSandbox, until
from support.emulator_jobs import Account
from support.emulator_models import SERVING_IMAGE, container, served, settled
from support.ports import free_port

pytestmark = pytest.mark.slow

HANDLER = """
import json, pathlib, time

def model_fn(model_dir):
    return "m"

def transform_fn(model, body, content_type, accept):
    if content_type == "text/csv":
        return body, "text/csv"
    if content_type == "application/x-npy":
        return b"\\x93NUMPY" + bytes(body)[6:], "application/x-npy"
    if content_type.startswith("image/"):
        return json.dumps({"bytes": len(body), "type": content_type}), "application/json"
    value = json.loads(body)
    if value == "fail":
        print("the reason in the log", flush=True)
        raise RuntimeError("a bug of the handler")
    if value == "pieces":
        def pieces():
            for number in range(3):
                yield "piece %d\\n" % number
        return pieces(), "text/plain"
    while isinstance(value, dict) and not pathlib.Path(value.get("until", "/")).exists():
        time.sleep(0.1)
    return json.dumps({"got": value}), "application/json"
"""
ONLY_CSV = """
import sys

def model_fn(model_dir):
    return "m"

def predict_fn(data, model):
    return data
"""


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningEmulator]:
    with running_emulator(tmp_path_factory.mktemp("aws"), stop_grace=5.0) as started:
        yield started


@pytest.fixture(scope="module")
def account(emulator: RunningEmulator) -> Account:
    return Account(emulator, emulator.bucket("predict"), "predict")


@pytest.fixture(scope="module")
def endpoint(account: Account) -> str:
    return served(account, container(account, {"code/inference.py": HANDLER}))


@contextlib.contextmanager
def held(cli: CliSandbox) -> Iterator[str]:
    """A request that is not answered within the block; later requests do not wait for it."""
    file = cli.project / f"answer-{uuid.uuid4().hex}"
    try:
        yield json.dumps({"until": str(file)})
    finally:
        file.touch()


@pytest.fixture
def cli(tmp_path: Path, emulator: RunningEmulator) -> CliSandbox:
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    project.mkdir()
    return CliSandbox(home, project, dict(emulator.credentials))


def test_json_on_the_command_line_is_answered(cli: CliSandbox, endpoint: str) -> None:
    done = cli.gpuproof("predict", endpoint, "--data", "[1, 2]")
    assert (done.returncode, done.stdout) == (0, '{"got": [1, 2]}\n'), done.stderr


def test_standard_input_and_a_file_for_the_response(cli: CliSandbox, endpoint: str) -> None:
    done = cli.gpuproof("predict", endpoint, "--data", "-", "-o", "answer.json", input='{"a": 1}')
    assert done.returncode == 0, done.stderr
    assert json.loads((cli.project / "answer.json").read_text()) == {"got": {"a": 1}}


def test_several_files_of_different_types_are_one_request_each(cli: CliSandbox, endpoint: str) -> None:
    cli.write("rows.csv", "1,2\n3,4\n")
    (cli.project / "x.npy").write_bytes(b"\x93NUMPY\x01\x00")
    (cli.project / "cat.png").write_bytes(b"\x89PNG....")
    files = [word for name in ("rows.csv", "x.npy", "cat.png") for word in ("--data", name)]
    done = cli.gpuproof("predict", endpoint, *files, "--format", "json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["version"] == 1
    rows, array, image = document["predictions"]
    assert (rows["content_type"], rows["text"], rows["variant"]) == ("text/csv", "1,2\n3,4\n", "v1")
    assert array["base64"]
    assert image["json"] == {"bytes": 8, "type": "image/png"}
    done = cli.gpuproof("predict", endpoint, *files, "-o", "answers")
    assert done.returncode == 0, done.stderr
    names = ["1-rows.csv.out", "2-x.npy.out", "3-cat.png.out"]
    assert sorted(path.name for path in (cli.project / "answers").iterdir()) == names


def test_a_stream_is_printed(cli: CliSandbox, endpoint: str) -> None:
    done = cli.gpuproof("predict", endpoint, "--data", '"pieces"', "--stream")
    assert (done.returncode, done.stdout) == (0, "piece 0\npiece 1\npiece 2\n"), done.stderr


def test_a_failing_handler_is_reported_with_status_message_and_log(cli: CliSandbox, endpoint: str) -> None:
    done = cli.gpuproof("predict", endpoint, "--data", '"fail"')
    assert done.returncode == 1
    assert f"The model of {endpoint} answered 500" in done.stderr
    assert "the handler raised RuntimeError" in done.stderr
    assert f"aws logs tail /aws/sagemaker/Endpoints/{endpoint}" in done.stderr
    until(
        lambda: "a bug of the handler" in cli.gpuproof("predict", endpoint, "--data", '"fail"').stderr,
        "the log's lines in the message",
    )


def test_a_timeout_names_the_alternative(cli: CliSandbox, endpoint: str) -> None:
    with held(cli) as request:
        done = cli.gpuproof("predict", endpoint, "--data", request, "--timeout", "2s")
    assert done.returncode == 1
    assert "did not answer within 2 s" in done.stderr
    assert "asynchronous endpoint" in done.stderr


def test_a_wrong_content_type_is_the_models_own_answer(cli: CliSandbox, account: Account) -> None:
    name = served(account, container(account, {"code/inference.py": ONLY_CSV}))
    done = cli.gpuproof("predict", name, "--data", "[1]", "--content-type", "application/x-unknown")
    assert done.returncode == 1
    assert "answered 415" in done.stderr
    assert "--content-type" in done.stderr


def test_what_is_too_large_is_not_sent(cli: CliSandbox, endpoint: str, emulator: RunningEmulator) -> None:
    (cli.project / "large.npy").write_bytes(b"x" * ((6 << 20) + 1))
    emulator.forget_requests()
    done = cli.gpuproof("predict", endpoint, "--data", "large.npy")
    assert done.returncode == 2
    assert "takes at most 6,291,456 bytes" in done.stderr
    assert "InvokeEndpoint" not in emulator.operations()


def test_an_unknown_endpoint_names_the_nearest(cli: CliSandbox, endpoint: str) -> None:
    done = cli.gpuproof("predict", endpoint + "x", "--data", "[1]")
    assert done.returncode == 2
    assert f"There is no endpoint {endpoint}x in us-east-1" in done.stderr
    assert f"Did you mean {endpoint}?" in done.stderr


def test_an_endpoint_that_has_failed_says_why(cli: CliSandbox, account: Account) -> None:
    client, name = account.client("sagemaker"), account.name()
    definition = container(account, {"code/inference.py": "def model_fn(model_dir):\n    raise ValueError\n"})
    client.create_model(ModelName=name, ExecutionRoleArn=account.emulator.role, PrimaryContainer=definition)
    variant = {
        "VariantName": "v",
        "ModelName": name,
        "InstanceType": "ml.g5.xlarge",
        "InitialInstanceCount": 1,
    }
    client.create_endpoint_config(EndpointConfigName=name, ProductionVariants=[variant])
    client.create_endpoint(EndpointName=name, EndpointConfigName=name)
    settled(account, name)
    done = cli.gpuproof("predict", name, "--data", "[1]")
    assert done.returncode == 1
    assert "has failed: The primary container" in done.stderr


def test_variants_and_models_are_chosen_by_name(cli: CliSandbox, endpoint: str, account: Account) -> None:
    done = cli.gpuproof("predict", endpoint, "--data", "[1]", "--target-variant", "v2")
    assert (done.returncode, "It has v1." in done.stderr) == (2, True)
    account.put("several/a.tar.gz", archive(**{"code/inference.py": HANDLER.encode()}))
    several = served(
        account,
        {"Image": SERVING_IMAGE, "Mode": "MultiModel", "ModelDataUrl": f"s3://{account.bucket}/several/"},
    )
    done = cli.gpuproof("predict", several, "--data", "[3]", "--target-model", "a.tar.gz")
    assert (done.returncode, done.stdout) == (0, '{"got": [3]}\n'), done.stderr


def test_an_asynchronous_endpoint_is_waited_for_and_leaves_no_input(
    cli: CliSandbox, account: Account
) -> None:
    name = _asynchronous(account)
    done = cli.gpuproof("predict", name, "--data", "[7]", "--format", "json")
    assert done.returncode == 0, done.stderr
    (answer,) = json.loads(done.stdout)["predictions"]
    assert answer["json"] == {"got": [7]}
    assert answer["location"].startswith(f"s3://{account.bucket}/async-out/")
    assert account.keys("async-out/gpuproof-inputs/") == []

    done = cli.gpuproof("predict", name, "--data", '"fail"')
    assert done.returncode == 1
    assert "the handler raised RuntimeError" in done.stderr
    assert account.keys("async-out/gpuproof-inputs/") == []

    where = account.put("given.json", "[8]")
    done = cli.gpuproof("predict", name, "--data", where, "--no-wait")
    assert done.returncode == 0, done.stderr
    key = done.stdout.strip().removeprefix(f"s3://{account.bucket}/")
    until(lambda: account.keys(key), "the result")
    assert json.loads(account.get(key)) == {"got": [8]}
    assert account.keys("given.json") == ["given.json"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_while_an_asynchronous_result_is_awaited_says_what_stays(
    cli: CliSandbox, account: Account, number: signal.Signals
) -> None:
    name = _asynchronous(account)
    with held(cli) as request:
        process = cli.start("predict", name, "--data", request)
        until(lambda: account.keys("async-out/gpuproof-inputs/"), "the upload")
        until(lambda: "InvokeEndpointAsync" in account.emulator.operations(), "the request")
        process.send_signal(number)
        out, errors = process.communicate(timeout=120)
    assert (process.returncode, out) == (130, ""), errors
    (upload,) = account.keys("async-out/gpuproof-inputs/")
    assert f"its data was not deleted: s3://{account.bucket}/{upload}" in errors
    result = errors.partition("its result will be at ")[2].splitlines()[0]
    key = result.removeprefix(f"s3://{account.bucket}/")
    until(lambda: account.keys(key), "the result")
    account.client("s3").delete_object(Bucket=account.bucket, Key=upload)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_a_request(
    cli: CliSandbox, endpoint: str, account: Account, number: signal.Signals
) -> None:
    account.emulator.forget_requests()
    with held(cli) as request:
        process = cli.start("predict", endpoint, "--data", request, "--stream")
        until(lambda: "InvokeEndpointWithResponseStream" in account.emulator.operations(), "the request")
        process.send_signal(number)
        process.communicate(timeout=120)
    assert process.returncode == 130


def test_a_serverless_endpoint_takes_four_megabytes(cli: CliSandbox, account: Account) -> None:
    size = {"MemorySizeInMB": 2048, "MaxConcurrency": 1}
    definition = container(account, {"code/inference.py": HANDLER})
    client, name = account.client("sagemaker"), account.name()
    client.create_model(ModelName=name, ExecutionRoleArn=account.emulator.role, PrimaryContainer=definition)
    variant = {"VariantName": "v", "ModelName": name, "ServerlessConfig": size}
    client.create_endpoint_config(EndpointConfigName=name, ProductionVariants=[variant])
    client.create_endpoint(EndpointName=name, EndpointConfigName=name)
    settled(account, name)
    (cli.project / "large.npy").write_bytes(b"x" * ((4 << 20) + 1))
    account.emulator.forget_requests()
    done = cli.gpuproof("predict", name, "--data", "large.npy")
    assert (done.returncode, "takes at most 4,194,304 bytes" in done.stderr) == (2, True), done.stderr
    assert "InvokeEndpoint" not in account.emulator.operations()


def test_an_endpoint_that_is_being_created_names_the_command_that_waits(
    cli: CliSandbox, account: Account
) -> None:
    handler = "import time\n\ndef model_fn(model_dir):\n    time.sleep(600)\n"
    definition = container(account, {"code/inference.py": handler})
    client, name = account.client("sagemaker"), account.name()
    client.create_model(ModelName=name, ExecutionRoleArn=account.emulator.role, PrimaryContainer=definition)
    variant = {
        "VariantName": "v",
        "ModelName": name,
        "InstanceType": "ml.g5.xlarge",
        "InitialInstanceCount": 1,
    }
    client.create_endpoint_config(EndpointConfigName=name, ProductionVariants=[variant])
    client.create_endpoint(EndpointName=name, EndpointConfigName=name)
    done = cli.gpuproof("predict", name, "--data", "[1]")
    assert done.returncode == 1
    assert "its status is Creating" in done.stderr
    assert f"aws sagemaker wait endpoint-in-service --endpoint-name {name}" in done.stderr


def test_an_endpoint_that_is_deleted_before_the_request(cli: CliSandbox, emulator: RunningEmulator) -> None:
    """Without permission to describe it, an endpoint that does not exist is noticed by the request only."""
    emulator.faults("access-denied,operation=DescribeEndpoint")
    try:
        done = cli.gpuproof("predict", "deleted", "--data", "[1]")
    finally:
        emulator.faults()
    assert done.returncode in (2, 5), done.stderr
    assert "deleted" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_command_line_without_permission_to_describe_still_predicts(
    cli: CliSandbox, endpoint: str, emulator: RunningEmulator
) -> None:
    emulator.faults("access-denied,operation=DescribeEndpoint")
    try:
        done = cli.gpuproof("predict", endpoint, "--data", "[1]")
    finally:
        emulator.faults()
    assert (done.returncode, done.stdout) == (0, '{"got": [1]}\n'), done.stderr


def test_a_local_server_is_named_by_its_url(cli: CliSandbox, tmp_path: Path) -> None:
    cli.write("model/code/inference.py", HANDLER)
    port = free_port()
    server = cli.start("serve", "model", "--port", str(port))
    url = f"http://127.0.0.1:{port}"
    try:
        until(lambda: cli.gpuproof("predict", url, "--data", "[1]").returncode == 0, "the server")
        done = cli.gpuproof("predict", url, "--data", "[1]")
        assert done.stdout == '{"got": [1]}\n'
        assert cli.gpuproof("predict", url, "--data", '"pieces"', "--stream").stdout.startswith("piece 0\n")
        failed = cli.gpuproof("predict", url, "--data", '"fail"')
        assert (failed.returncode, "answered 500" in failed.stderr) == (1, True)
    finally:
        server.terminate()
        server.communicate(timeout=300)
    done = cli.gpuproof("predict", url, "--data", "[1]")
    assert (done.returncode, "No server listens at" in done.stderr) == (1, True)


def _asynchronous(account: Account) -> str:
    client, name = account.client("sagemaker"), account.name()
    definition: dict[str, Any] = container(account, {"code/inference.py": HANDLER})
    client.create_model(ModelName=name, ExecutionRoleArn=account.emulator.role, PrimaryContainer=definition)
    variant = {
        "VariantName": "v",
        "ModelName": name,
        "InstanceType": "ml.g5.xlarge",
        "InitialInstanceCount": 1,
    }
    output = {
        "S3OutputPath": f"s3://{account.bucket}/async-out",
        "S3FailurePath": f"s3://{account.bucket}/async-failures",
    }
    client.create_endpoint_config(
        EndpointConfigName=name,
        ProductionVariants=[variant],
        AsyncInferenceConfig={"OutputConfig": output},
    )
    client.create_endpoint(EndpointName=name, EndpointConfigName=name)
    assert settled(account, name)["EndpointStatus"] == "InService"
    return name
