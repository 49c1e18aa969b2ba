"""Both SageMaker SDKs, boto3 and the AWS CLI use an endpoint that `gpuproof deploy` created."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from support.deploy_program import Program
from support.emulator_jobs import Account
from support.sdk_environments import interpreter_of
from support.sdk_scripts import environment, run_script

pytestmark = pytest.mark.slow

HANDLER = """
import json

def model_fn(model_dir):
    return "model"

def input_fn(body, content_type):
    text = body if isinstance(body, str) else bytes(body).decode()
    return text.strip().split(",") if content_type == "text/csv" else json.loads(text)

def predict_fn(data, model):
    return data

def output_fn(prediction, accept):
    return json.dumps(prediction), "application/json"
"""


@pytest.fixture
def program(aws: Account, tmp_path: Path) -> Program:
    """A deployed endpoint, whose name is the prefix of the test's account."""
    program = Program(aws.emulator, tmp_path)
    program.write(HANDLER)
    code, _, errors = program.deploy(aws.prefix, "--no-require-gpu")
    assert code == 0, errors
    return program


def removed(program: Program, name: str) -> bool:
    code, _, errors = program.run("delete", name)
    assert code == 0, errors
    return program.left(name) == []


@pytest.mark.xdist_group("sagemaker-v2")
def test_a_predictor_of_sdk_v2_predicts_and_deletes_the_endpoint(
    aws: Account, program: Program, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    found = run_script("v2_predictor", "sagemaker-v2", aws.emulator, aws.bucket, home, aws.prefix)
    assert found["json"] == [[1, 2], [3, 4]]
    assert found["csv"] == ["5", "6"]
    # `delete` removes the model and its files, which the SDK leaves.
    assert len(program.left(aws.prefix)) == 1
    assert removed(program, aws.prefix)


@pytest.mark.xdist_group("sagemaker-v3")
def test_an_endpoint_of_sdk_v3_answers(aws: Account, program: Program, tmp_path: Path) -> None:
    home = tmp_path / "home"
    found = run_script("v3_endpoint", "sagemaker-v3", aws.emulator, aws.bucket, home, aws.prefix)
    assert (found["status"], found["answer"]) == ("InService", [[1, 2]])
    assert removed(program, aws.prefix)


def test_boto3_invokes_at_once_and_as_a_stream(aws: Account, program: Program) -> None:
    client = aws.client("sagemaker-runtime")
    request = {"EndpointName": aws.prefix, "ContentType": "text/csv", "Body": b"7,8"}
    assert json.loads(client.invoke_endpoint(**request)["Body"].read()) == ["7", "8"]
    stream = client.invoke_endpoint_with_response_stream(**request)["Body"]
    assert json.loads(b"".join(event["PayloadPart"]["Bytes"] for event in stream)) == ["7", "8"]
    assert removed(program, aws.prefix)


@pytest.mark.xdist_group("awscli")
def test_the_aws_cli_waits_for_the_endpoint_invokes_it_and_gets_its_verdict(
    aws: Account, program: Program, tmp_path: Path
) -> None:
    def cli(*words: str) -> str:
        done = subprocess.run(
            [interpreter_of("awscli").with_name("aws"), *words],
            cwd=tmp_path,
            env={**environment(aws.emulator, tmp_path / "home"), "AWS_PAGER": ""},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout

    endpoint = ("--endpoint-name", aws.prefix)
    cli("sagemaker", "wait", "endpoint-in-service", *endpoint)
    invoke = ("sagemaker-runtime", "invoke-endpoint", *endpoint, "--content-type", "application/json")
    (tmp_path / "body.json").write_text("[9]")
    cli(*invoke, "--body", "fileb://body.json", "answer.json")
    assert json.loads((tmp_path / "answer.json").read_text()) == [9]
    # As docs/endpoints.md says.
    cli(*invoke, "--body", "fileb://body.json", "--custom-attributes", "gpuproof-verdict", "verdict.json")
    assert json.loads((tmp_path / "verdict.json").read_text())["verdict"] == "no-gpu"
    assert removed(program, aws.prefix)
