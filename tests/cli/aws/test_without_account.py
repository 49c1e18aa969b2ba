"""`--dry-run` without credentials and without a region: it shows every request, and no request is sent."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.cli_sandbox import CliSandbox

pytestmark = pytest.mark.slow

HANDLER = "def model_fn(folder):\n    return folder\n"
SAGEMAKER = ("run", "train.py", "--on", "sagemaker", "--no-check", "--instance-type", "ml.g5.xlarge")
EC2 = ("run", "train.py", "--on", "ec2", "--no-check", "--instance-type", "g5.xlarge")
DEPLOY = ("deploy", "model", "--framework", "pytorch", "--instance-type", "ml.g5.xlarge")
TRANSFORM = (
    *("transform", "model", "--framework", "pytorch", "--instance-type", "ml.g5.xlarge"),
    *("--input", "s3://data/rows/", "--output", "s3://data/results"),
)
NOTEBOOK = ("notebook", "create", "work", "--instance-type", "ml.g5.xlarge")
DELETE = ("delete", "digits")


@pytest.fixture
def no_account(tmp_path: Path) -> Iterator[CliSandbox]:
    """A user without credentials; the test fails if a request is sent to AWS."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        home, project = tmp_path / "home", tmp_path / "project"
        home.mkdir()
        project.mkdir()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        sandbox = CliSandbox(home, project, {"AWS_ENDPOINT_URL": url})
        sandbox.write("train.py", "import torch\ntorch.nn.Linear(4, 2).cuda()\n")
        sandbox.write("model/code/inference.py", HANDLER)
        yield sandbox
        with pytest.raises(BlockingIOError):
            listener.accept()


def dry_run(no_account: CliSandbox, *words: str) -> dict[str, Any]:
    done = no_account.gpuproof(*words, "--dry-run", "--format", "json")
    assert done.returncode == 0, done.stderr
    assert "No AWS credentials" in done.stderr
    assert "us-east-1 is assumed" in done.stderr
    return json.loads(done.stdout)


def request_of(document: dict[str, Any], operation: str) -> dict[str, Any]:
    return next(call["request"] for call in document["calls"] if call["operation"] == operation)


def test_a_job_on_sagemaker_is_shown_with_an_account_and_a_role_that_are_marked(
    no_account: CliSandbox,
) -> None:
    document = dry_run(no_account, *SAGEMAKER)
    request = request_of(document, "create_training_job")
    assert request["RoleArn"] == "arn:aws:iam::<account>:role/<role>"
    assert "gpuproof-<account>-us-east-1" in request["OutputDataConfig"]["S3OutputPath"]
    assert set(document["placeholders"]) == {"<account>", "<role>"}


def test_what_the_user_names_is_no_placeholder(no_account: CliSandbox) -> None:
    role = "arn:aws:iam::210987654321:role/mine"
    words = ("--role", role, "--bucket", "mine", "--region", "eu-west-1", "--dry-run", "--format", "json")
    document = json.loads(no_account.gpuproof(*SAGEMAKER, *words).stdout)
    request = request_of(document, "create_training_job")
    assert request["RoleArn"] == role
    assert "placeholders" not in document
    assert request["OutputDataConfig"]["S3OutputPath"].startswith("s3://mine/")
    assert "eu-west-1" in request["AlgorithmSpecification"]["TrainingImage"]


def test_an_instance_on_ec2_has_a_marked_image_and_subnet(no_account: CliSandbox) -> None:
    document = dry_run(no_account, *EC2)
    request = request_of(document, "run_instances")
    assert (request["ImageId"], request["SubnetId"]) == ("<ami>", "<subnet>")
    assert request_of(document, "create_security_group")["VpcId"] == "<vpc>"
    assert {"<ami>", "<subnet>", "<vpc>", "<account>"} <= set(document["placeholders"])


def test_the_backends_are_compared_by_their_list_prices(no_account: CliSandbox) -> None:
    document = dry_run(no_account, "run", "train.py", "--on", "cheapest", "--no-check", "--gpu", "A10G:1")
    assert {entry["backend"] for entry in document["candidates"]} == {"ec2", "sagemaker"}


def test_an_endpoint_with_its_schedule(no_account: CliSandbox) -> None:
    document = dry_run(no_account, *DEPLOY, "--ttl", "2h")
    target = request_of(document, "create_schedule")["Target"]
    assert target["RoleArn"] == "arn:aws:iam::<account>:role/gpuproof-scheduler"
    assert request_of(document, "create_endpoint")["EndpointName"] == "model"


def test_a_batch_transform_job_of_a_model_here_and_of_one_of_the_account(no_account: CliSandbox) -> None:
    document = dry_run(no_account, *TRANSFORM)
    assert request_of(document, "create_model")["ExecutionRoleArn"].startswith("arn:aws:iam::<account>:")
    there = ("transform", "a-model", *TRANSFORM[4:])
    assert request_of(dry_run(no_account, *there), "create_transform_job")["ModelName"] == "a-model"


def test_a_notebook_instance_and_a_deletion(no_account: CliSandbox) -> None:
    request = request_of(dry_run(no_account, *NOTEBOOK), "create_notebook_instance")
    assert request["RoleArn"] == "arn:aws:iam::<account>:role/<role>"
    (endpoint,) = dry_run(no_account, *DELETE)["endpoints"]
    assert "endpoint digits" in endpoint["deleted"]
    assert "model <model>" in endpoint["deleted"]


@pytest.mark.parametrize("words", [SAGEMAKER, EC2, DEPLOY, TRANSFORM, NOTEBOOK, DELETE, ("cleanup",)])
def test_the_error_of_a_command_that_needs_credentials_names_the_emulator(
    no_account: CliSandbox, words: tuple[str, ...]
) -> None:
    done = no_account.gpuproof(*words, *(("--region", "us-east-1") if words[0] != "notebook" else ()))
    assert done.returncode in (2, 3)
    assert "gpuproof emulator" in done.stderr


def test_own_variables_are_shown_and_secrets_are_not(no_account: CliSandbox) -> None:
    secrets = {
        "HF_TOKEN": "abc",
        "DB_PASSWORD": "abc",
        "DATABASE": "postgres://ann:pw@db/x",
        "OPENAI_API_KEY": "abc",
    }
    plain = {"LOG_LEVEL": "debug", "MONKEY": "see", "TOP_K": "5", "DATA": "https://example.com/a@b"}
    words = [word for name, value in {**secrets, **plain}.items() for word in ("--env", f"{name}={value}")]
    document = dry_run(no_account, *DEPLOY, *words)
    shown = request_of(document, "create_model")["PrimaryContainer"]["Environment"]
    assert {name: shown[name] for name in secrets} == dict.fromkeys(secrets, "***")
    assert {name: shown[name] for name in plain} == plain
    assert shown["PYTHONPATH"] == "/opt/ml/model/code/.gpuproof"
    assert "***" not in (shown["BASH_ENV"], shown["GPUPROOF_SERVER"], shown["GPUPROOF_SERVE_WARMUP"])


def test_setup_and_its_removal(no_account: CliSandbox) -> None:
    document = dry_run(no_account, "setup")
    assert {part["state"] for part in document["parts"]} == {"missing"}
    assert document["account"] == "<account>"
    found = dry_run(no_account, "setup", "--remove")["found"]
    assert "role gpuproof-sagemaker, if setup has created it" in [entry["what"] for entry in found]


def test_a_cleanup_lists_the_requests_that_it_would_send(no_account: CliSandbox) -> None:
    document = dry_run(no_account, "cleanup", "--kind", "endpoint", "--delete")
    assert (document["kinds"], document["regions"]) == (["endpoint"], ["us-east-1"])
    assert "sagemaker list_endpoints" in document["reads"]
    assert "sagemaker delete_endpoint" in document["deletes"]
