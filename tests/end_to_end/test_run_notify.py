"""Notifications of runs through the command line, and where the address of a webhook must not appear."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.aws_emulator import RunningEmulator, running_emulator
from support.cli_sandbox import CliSandbox
from support.http_receiver import Receiver
from support.nvml_stub import STAYS, Scenario, build_library

pytestmark = [pytest.mark.journey, pytest.mark.slow]

SECRET = "services/T0/B0/s3cret-value"
SAGEMAKER = ("--on", "sagemaker", "--instance-type", "ml.g5.xlarge", "--framework", "pytorch", "--no-check")


@pytest.fixture
def receiver(sandbox: CliSandbox) -> Iterator[Receiver]:
    with Receiver(200) as receiver:
        sandbox.environment["CHAT_URL"] = f"{receiver.url}/{SECRET}"
        yield receiver


def test_a_gpu_that_stayed_unused_is_reported_by_the_host(
    sandbox: CliSandbox, receiver: Receiver, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    scenario = Scenario(tmp_path / "gpus.txt").seen(tmp_path / "looks")
    sandbox.environment.update(scenario.environment(build_library(tmp_path_factory.getbasetemp() / "stub")))
    scenario.gpu(0).write()
    seen = str(sandbox.project.parent / "looks")
    sandbox.write("train.py", STAYS.format(files=[], looks=seen, count=4))
    words = ("--instance-type", "ml.g5.xlarge", "--notify-webhook", "CHAT_URL")
    assert sandbox.gpuproof("run", "train.py", *words).returncode == 4
    (request,) = receiver.requests
    assert (request.path, request.json()["outcome"]) == (f"/{SECRET}", "cpu-only")
    # Not even in the run's own files.
    files = [path for path in sandbox.newest().rglob("*") if path.is_file()]
    assert not any(SECRET.encode() in path.read_bytes() for path in files)


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize(
    "place", [(), SAGEMAKER, ("--on", "ec2", *SAGEMAKER[2:])], ids=["here", "sagemaker", "ec2"]
)
def test_a_dry_run_never_shows_the_address(
    sandbox: CliSandbox, receiver: Receiver, place: tuple[str, ...], form: str
) -> None:
    sandbox.write("train.py", "import torch\n" if place else "")
    words = (*place, "--dry-run", "--format", form, "--notify-webhook", "CHAT_URL", "--no-require-gpu")
    done = sandbox.gpuproof(
        "run", "train.py", *[word.replace("ml.g5", "g5") if "ec2" in place else word for word in words]
    )
    assert done.returncode == 0
    assert SECRET not in done.stdout + done.stderr
    assert receiver.requests == []


def test_a_variable_that_is_not_set_is_an_error_before_anything_starts(sandbox: CliSandbox) -> None:
    sandbox.write("train.py", "")
    done = sandbox.gpuproof("run", "train.py", "--notify-webhook", "CHAT_URL")
    assert done.returncode == 2
    assert "environment variable CHAT_URL" in done.stderr


def test_an_address_instead_of_a_variable_is_rejected_without_repeating_it(sandbox: CliSandbox) -> None:
    sandbox.write("train.py", "")
    done = sandbox.gpuproof("run", "train.py", "--notify-webhook", f"https://hooks.slack.com/{SECRET}")
    assert done.returncode == 2
    assert "put it into an environment variable" in done.stderr
    assert SECRET not in done.stderr


def test_what_is_no_topic_is_rejected(sandbox: CliSandbox) -> None:
    sandbox.write("train.py", "")
    done = sandbox.gpuproof("run", "train.py", "--notify-topic", "runs")
    assert done.returncode == 2
    assert "'runs' is not the ARN of an SNS topic" in done.stderr


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningEmulator]:
    with running_emulator(tmp_path_factory.mktemp("aws")) as running:
        running.bucket("mine")
        assert running.role
        yield running


def test_on_sagemaker_topic_and_webhook_hear_of_a_script_that_fails(
    sandbox: CliSandbox, receiver: Receiver, emulator: RunningEmulator
) -> None:
    sns, sqs = emulator.client("sns"), emulator.client("sqs")
    topic = sns.create_topic(Name="runs")["TopicArn"]
    queue = sqs.create_queue(QueueName="runs")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn)
    sandbox.environment |= {**emulator.credentials, "GPUPROOF_BUCKET": "mine"}
    sandbox.write("train.py", "raise ValueError('no data')\n")
    words = (*SAGEMAKER, "--no-require-gpu", "--notify-topic", topic, "--notify-webhook", "CHAT_URL")
    done = sandbox.gpuproof("run", "train.py", *words)
    assert done.returncode == 1
    (received,) = sqs.receive_message(QueueUrl=queue)["Messages"]
    by_topic = json.loads(json.loads(received["Body"])["Message"])
    (request,) = receiver.requests
    assert by_topic["event"] == request.json()["event"] == "failed"
    assert "ValueError: no data" in by_topic["reason"]
    assert SECRET not in done.stdout + done.stderr
