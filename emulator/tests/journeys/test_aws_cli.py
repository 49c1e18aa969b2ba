"""The AWS CLI trains, waits, copies, reads logs and invokes an endpoint."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from support.emulator_jobs import Account
from support.emulator_models import container, served
from support.sdk_environments import interpreter_of
from support.sdk_scripts import environment

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("awscli")]

HANDLER = """
def model_fn(model_dir):
    return True

def transform_fn(model, body, content_type, accept):
    return body.upper(), "text/plain"
"""


class Cli:
    """`aws`, in a folder of its own."""

    def __init__(self, aws: Account, folder: Path) -> None:
        self._program = interpreter_of("awscli").with_name("aws")
        self._environment = {**environment(aws.emulator, folder), "AWS_PAGER": ""}
        self._folder = folder

    def __call__(self, *words: str) -> str:
        """What it prints; it must succeed."""
        done = self.run(*words)
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout

    def json(self, *words: str) -> Any:
        return json.loads(self(*words, "--output", "json"))

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self._program, *words],
            cwd=self._folder,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )


@pytest.fixture
def cli(aws: Account, tmp_path: Path) -> Cli:
    return Cli(aws, tmp_path)


def test_a_training_job_is_created_awaited_and_read(aws: Account, cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("1\n2\n3\n")
    cli("s3", "cp", "data.csv", f"s3://{aws.bucket}/data/data.csv")
    script = "wc -l < /opt/ml/input/data/training/data.csv | tee /opt/ml/model/lines.txt"
    source = {"S3DataType": "S3Prefix", "S3Uri": f"s3://{aws.bucket}/data"}
    request = aws.training(
        script,
        InputDataConfig=[{"ChannelName": "training", "DataSource": {"S3DataSource": source}}],
    )
    name = request["TrainingJobName"]
    (tmp_path / "job.json").write_text(json.dumps(request))
    made = cli.json("sagemaker", "create-training-job", "--cli-input-json", "file://job.json")
    assert made["TrainingJobArn"].endswith(f":training-job/{name}")
    cli("sagemaker", "wait", "training-job-completed-or-stopped", "--training-job-name", name)
    job = cli.json("sagemaker", "describe-training-job", "--training-job-name", name)
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    cli("s3", "cp", job["ModelArtifacts"]["S3ModelArtifacts"], "model.tar.gz")
    assert (tmp_path / "model.tar.gz").stat().st_size > 0
    listed = cli("s3", "ls", "--recursive", f"s3://{aws.bucket}/")
    assert "data/data.csv" in listed
    group = "/aws/sagemaker/TrainingJobs"
    events = cli.json(
        "logs", "filter-log-events", "--log-group-name", group, "--log-stream-name-prefix", f"{name}/algo-1"
    )
    assert [event["message"] for event in events["events"]] == ["3"]


def test_a_mistake_in_a_request_is_reported_in_awss_words(aws: Account, cli: Cli) -> None:
    done = cli.run("sagemaker", "describe-training-job", "--training-job-name", "never-made")
    assert done.returncode != 0
    assert "ValidationException" in done.stderr
    assert "Requested resource not found" in done.stderr


def test_an_endpoint_is_invoked(aws: Account, cli: Cli, tmp_path: Path) -> None:
    name = served(aws, container(aws, {"code/inference.py": HANDLER}))
    (tmp_path / "question.txt").write_text("hello")
    words = ("sagemaker-runtime", "invoke-endpoint", "--endpoint-name", name, "--content-type", "text/plain")
    output = cli.json(*words, "--body", "fileb://question.txt", "answer.txt")
    assert output["InvokedProductionVariant"] == "v1"
    assert (tmp_path / "answer.txt").read_text() == "HELLO"
    cli("sagemaker", "delete-endpoint", "--endpoint-name", name)
    cli("sagemaker", "wait", "endpoint-deleted", "--endpoint-name", name)
