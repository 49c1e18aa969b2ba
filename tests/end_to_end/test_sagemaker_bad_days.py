"""Failures on SageMaker, from the command line: each is reported with a remedy, and leaves nothing behind."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from support.aws_emulator import RunningEmulator, running_emulator
from support.cli_sandbox import CliSandbox

pytestmark = [pytest.mark.journey, pytest.mark.slow]

BUCKET = "mine"
CPU = ("--instance-type", "ml.m5.xlarge")
GPU = ("--instance-type", "ml.g5.xlarge")


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningEmulator]:
    with running_emulator(tmp_path_factory.mktemp("aws"), stop_grace=30.0) as running:
        running.bucket(BUCKET)
        place = {"LocationConstraint": "eu-west-1"}
        running.client("s3", "eu-west-1").create_bucket(Bucket="abroad", CreateBucketConfiguration=place)
        assert running.role
        yield running


@pytest.fixture
def cloud(sandbox: CliSandbox, emulator: RunningEmulator) -> Iterator[CliSandbox]:
    """A sandbox whose AWS is the emulator, with a job that prints a line."""
    sandbox.environment |= {**emulator.credentials, "GPUPROOF_BUCKET": BUCKET}
    sandbox.write("train.py", "print('it runs')\n")
    sandbox.write("gpuproof.yaml", "entry_point: train.py\nframework: pytorch\nmax_duration: 1h\n")
    emulator.forget_requests()
    yield sandbox
    emulator.faults()


def on_sagemaker(sandbox: CliSandbox, *words: str) -> subprocess.CompletedProcess[str]:
    return sandbox.gpuproof("run", "--on", "sagemaker", *words)


def left(emulator: RunningEmulator) -> dict[str, Any]:
    """What exists in the account, but for the bucket that was there."""
    pages = emulator.client("s3").get_paginator("list_objects_v2").paginate(Bucket=BUCKET)
    jobs = emulator.client("sagemaker").list_training_jobs(MaxResults=100)["TrainingJobSummaries"]
    return {
        "buckets": {bucket["Name"] for bucket in emulator.client("s3").list_buckets()["Buckets"]},
        "objects": {item["Key"] for page in pages for item in page.get("Contents", ())},
        "jobs": {job["TrainingJobName"] for job in jobs},
    }


@pytest.mark.parametrize(
    ("words", "code", "expected"),
    [
        ((*GPU, "--region", "us-esat-1"), 2, ("no AWS region us-esat-1", "Did you mean us-east-1?")),
        ((*GPU, "--bucket", "abroad"), 2, ("abroad is in eu-west-1", "--region eu-west-1")),
        ((*GPU, "--bucket", "nobody-has-it"), 2, ("There is no bucket nobody-has-it", "aws s3 mb")),
        ((*GPU, "--role", "nobody"), 2, ("There is no role nobody", "gpuproof iam policy")),
        (("--instance-type", "g5.xlarge"), 2, ("EC2 instance type", "--instance-type ml.g5.xlarge")),
        ((), 2, ("sets neither instance_type nor resources.gpu", "--gpu A10G:1")),
        (
            ("--instance-type", "ml.inf2.xlarge", "--no-check"),
            2,
            ("not an instance type for training jobs", "--instance-type ml."),
        ),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_made(
    cloud: CliSandbox, emulator: RunningEmulator, words: tuple[str, ...], code: int, expected: tuple[str, ...]
) -> None:
    before = left(emulator)
    done = on_sagemaker(cloud, *words)
    assert done.returncode == code, done.stderr
    assert all(word in done.stderr for word in expected), done.stderr
    assert left(emulator) == before


@pytest.mark.parametrize(
    ("fault", "code", "expected"),
    [
        ("expired-token", 5, ("ExpiredToken", "aws sso login")),
        ("clock-skew", 5, ("SignatureDoesNotMatch", "timedatectl set-ntp true")),
        ("access-denied,operation=CreateTrainingJob,action=iam:PassRole", 5, ("iam:PassRole",)),
        (
            "access-denied,operation=CreateTrainingJob",
            5,
            ("sagemaker:CreateTrainingJob", "gpuproof iam policy"),
        ),
    ],
)
def test_a_refusal_by_aws_has_a_remedy_and_leaves_no_run(
    cloud: CliSandbox, emulator: RunningEmulator, fault: str, code: int, expected: tuple[str, ...]
) -> None:
    before = left(emulator)
    emulator.faults(fault)
    done = on_sagemaker(cloud, *CPU)
    emulator.faults()
    assert done.returncode == code, done.stderr
    assert all(word in done.stderr for word in expected), done.stderr
    after = left(emulator)
    assert after["jobs"] == before["jobs"]
    assert {key for key in after["objects"] - before["objects"] if "/objects/" not in key} == set()


def test_an_aws_that_cannot_be_reached_is_undecided(cloud: CliSandbox) -> None:
    cloud.environment["AWS_ENDPOINT_URL"] = "http://127.0.0.1:9"
    done = on_sagemaker(cloud, *CPU)
    assert done.returncode == 3, done.stderr
    assert "AWS_ENDPOINT_URL" in done.stderr


def test_an_image_that_cannot_be_pulled_is_awss_reason_and_explain_has_it_too(
    cloud: CliSandbox, emulator: RunningEmulator
) -> None:
    emulator.faults("no-image")
    done = on_sagemaker(cloud, *CPU, "--image", "123456789012.dkr.ecr.us-east-1.amazonaws.com/no:1")
    assert done.returncode == 1, done.stderr
    end = done.stderr.rpartition("Failed")[2]
    assert "Cannot pull algorithm container." in end
    assert "aws ecr describe-images" in end
    assert "sagemaker-image-not-found" in cloud.gpuproof("explain").stdout
    assert "amazonaws.com/no:1" in cloud.gpuproof("show").stdout


def test_no_capacity_is_reported_once_with_other_types_and_json_has_the_run(
    cloud: CliSandbox, emulator: RunningEmulator
) -> None:
    emulator.faults("capacity")
    done = on_sagemaker(cloud, *GPU, "--fallback", "ml.g6.xlarge", "--format", "json")
    assert done.returncode == 5, done.stderr
    document = json.loads(done.stdout)
    assert [attempt["name"] for attempt in document["tried"]] == ["ml.g5.xlarge", "ml.g6.xlarge"]
    assert (document["exit_code"], document["run"]["instance_type"]) == (5, "ml.g6.xlarge")
    assert "--fallback ml.g5.2xlarge" in done.stderr
    assert "InstancePreferences" not in done.stderr


def test_no_quota_as_json_has_the_command_and_no_run(cloud: CliSandbox, emulator: RunningEmulator) -> None:
    emulator.faults("quota")
    done = on_sagemaker(cloud, *GPU, "--format", "json")
    document = json.loads(done.stdout)
    assert (done.returncode, document["exit_code"], document["run"]) == (5, 5, None)
    assert "--quota-code L-B6D80D9C" in document["tried"][0]["needs"]


def test_a_connection_lost_after_the_creation_makes_one_job(
    cloud: CliSandbox, emulator: RunningEmulator
) -> None:
    before = left(emulator)["jobs"]
    emulator.faults("drop,operation=CreateTrainingJob,when=after,count=1", "drop,operation=Describe*,count=1")
    done = on_sagemaker(cloud, *CPU)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "it runs\n"
    assert len(left(emulator)["jobs"] - before) == 1


def test_a_failure_is_reported_in_a_line_and_explained(cloud: CliSandbox) -> None:
    cloud.write("train.py", "print('begun')\nimport sklearn_extra_nowhere\n")
    done = on_sagemaker(cloud, *CPU, "--no-check")
    assert done.returncode == 1
    assert done.stdout.startswith("begun\nTraceback")
    assert "gpuproof-agent" not in done.stdout + done.stderr
    reason = "AlgorithmError: train.py exited with code 1: ModuleNotFoundError"
    assert done.stderr.count(reason) == 1
    assert "module-not-found" in done.stderr
    assert "ExecuteUserScriptError" not in done.stderr
    explained = cloud.gpuproof("explain", "--format", "json")
    assert explained.returncode == 1
    assert json.loads(explained.stdout)["explanations"][0]["code"] == "module-not-found"


def test_a_note_of_the_agent_is_printed_once(cloud: CliSandbox) -> None:
    done = on_sagemaker(cloud, *CPU)
    assert (done.stdout + done.stderr).count("this run saved no model") == 1
    assert cloud.gpuproof("logs").stdout == "it runs\n"


def test_suggested_commands_name_the_region_of_a_run_elsewhere(cloud: CliSandbox) -> None:
    del cloud.environment["GPUPROOF_BUCKET"]
    done = on_sagemaker(cloud, *CPU, "--region", "eu-west-1", "--detach")
    assert done.returncode == 0, done.stderr
    (hint,) = [line for line in done.stderr.splitlines() if "gpuproof logs -f" in line]
    words = hint.partition("gpuproof ")[2].split()
    assert words[-2:] == ["--region", "eu-west-1"]
    followed = cloud.gpuproof(*words)
    assert (followed.returncode, followed.stdout) == (0, "it runs\n"), followed.stderr
    assert "--region eu-west-1" in followed.stderr
    assert cloud.gpuproof("explain", "train", "--region", "eu-west-1").returncode == 0
