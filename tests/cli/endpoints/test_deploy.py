"""`gpuproof deploy` and `gpuproof delete` as programs, against the emulator over HTTP."""

from __future__ import annotations

import json
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.aws_emulator import RunningEmulator, running_emulator
from support.cli_sandbox import until
from support.deploy_program import Program
from support.endpoint_sandbox import IMAGE, waits_for

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningEmulator]:
    with running_emulator(tmp_path_factory.mktemp("aws"), stop_grace=1.0) as running:
        yield running


@pytest.fixture
def program(emulator: RunningEmulator, tmp_path: Path) -> Program:
    return Program(emulator, tmp_path)


def test_deploy_and_delete_as_the_page_says(program: Program) -> None:
    code, out, errors = program.deploy("digits", "--no-require-gpu", "--format", "json")
    assert code == 0, errors
    document = json.loads(out)
    assert document["verdict"]["verdict"] == "no-gpu"
    assert document["usd_per_hour"] > 0
    answer = program.emulator.client("sagemaker-runtime").invoke_endpoint(
        EndpointName="digits", Body=b"[1]", ContentType="application/json"
    )
    assert json.loads(answer["Body"].read()) == [1]
    code, out, errors = program.run("delete", "digits")
    assert code == 0, errors
    assert "endpoint digits: deleted" in out
    assert program.left("digits") == []


def test_a_model_off_the_gpu_exits_with_4_and_leaves_nothing(program: Program) -> None:
    code, _, errors = program.deploy("cpu")
    assert code == 4
    assert "is not on the GPU" in errors
    assert program.left("cpu") == []


def test_a_dry_run_creates_nothing(program: Program) -> None:
    code, out, errors = program.deploy("dry", "--dry-run", "--format", "json", "--env", "TOKEN=hunter2")
    assert code == 0, errors
    operations = [call["operation"] for call in json.loads(out)["calls"]]
    assert operations[-3:] == ["create_model", "create_endpoint_config", "create_endpoint"]
    assert "hunter2" not in out
    assert program.left("dry") == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_the_endpoint_is_created_leaves_nothing(program: Program, number: int) -> None:
    name = f"signal-{number}"
    with socket.create_server(("127.0.0.1", 0)) as gate:
        program.write(waits_for(gate))
        process = program.start(
            *("deploy", str(program.model), "--name", name, "--instance-type", "ml.g5.xlarge"),
            *("--image", IMAGE, "--no-require-gpu"),
        )
        until(lambda: len(program.left(name)) == 3 or process.poll() is not None, "the endpoint")
        process.send_signal(number)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 130, errors
    assert program.left(name) == []


def test_an_endpoint_of_somebody_else_is_deleted_only_when_asked(program: Program) -> None:
    client = program.emulator.client("sagemaker")
    client.create_model(
        ModelName="foreign", ExecutionRoleArn=program.emulator.role, PrimaryContainer={"Image": IMAGE}
    )
    variant = {
        "VariantName": "a",
        "ModelName": "foreign",
        "InstanceType": "ml.m5.xlarge",
        "InitialInstanceCount": 1,
    }
    client.create_endpoint_config(EndpointConfigName="foreign", ProductionVariants=[variant])
    client.create_endpoint(EndpointName="foreign", EndpointConfigName="foreign")
    code, _, errors = program.run("delete", "foreign")
    assert code == 2
    assert "--yes" in errors
    assert client.describe_endpoint(EndpointName="foreign")
    code, out, errors = program.run("delete", "foreign", "--yes")
    assert code == 0, errors
    assert out == "endpoint foreign: deleted\n"
    assert len(program.left("foreign")) == 2


def test_delete_goes_on_after_a_name_that_does_not_exist(program: Program) -> None:
    assert program.deploy("second", "--no-require-gpu")[0] == 0
    code, out, errors = program.run("delete", "nothing", "second")
    assert code == 2
    assert "There is no endpoint nothing" in errors
    assert "endpoint second: deleted" in out
    assert program.left("second") == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_deletion_names_what_deletes_the_rest(program: Program, number: int) -> None:
    name = f"undone-{number}"
    assert program.deploy(name, "--no-require-gpu")[0] == 0
    # It waits, and asks again, until the signal comes.
    program.emulator.faults("throttling,operation=DeleteEndpointConfig")
    process = program.start("delete", name, "nothing")
    until(lambda: program.endpoint_is_gone(name) or process.poll() is not None, "the end of the endpoint")
    process.send_signal(number)
    _, errors = process.communicate(timeout=300)
    program.emulator.faults()
    assert process.returncode == 130, errors
    assert f"gpuproof delete {name} nothing deletes what is left" in errors.replace(" --region us-east-1", "")
    assert len(program.left(name)) == 2
    code, _, errors = program.run("delete", name)
    assert code == 0, errors
    assert program.left(name) == []
