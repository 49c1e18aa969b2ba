"""Requests of the SageMaker SDKs and of botocore's waiters."""

from __future__ import annotations

import io
import json
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.aws_emulator import running_emulator
from support.emulator_jobs import IMAGE, Account

pytestmark = pytest.mark.slow

SCRIPT = """
import argparse, os
parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int)
print("epochs", parser.parse_args().epochs + 1)
open(os.path.join(os.environ["SM_MODEL_DIR"], "model.txt"), "w").write("trained")
"""


@pytest.fixture(scope="module")
def holding(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    """An emulator that holds its answers to SDKs."""
    with running_emulator(tmp_path_factory.mktemp("holding"), hold=300.0) as emulator:
        yield Account(emulator, emulator.bucket("held"), "held")


def test_a_job_without_an_entry_point_runs_as_its_image_would(aws: Account) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        member = tarfile.TarInfo("train.py")
        member.size = len(SCRIPT)
        archive.addfile(member, io.BytesIO(SCRIPT.encode()))
    source = aws.put("code/sourcedir.tar.gz", packed.getvalue())
    job = aws.trained(
        "",
        AlgorithmSpecification={"TrainingImage": IMAGE, "TrainingInputMode": "File"},
        HyperParameters={
            "sagemaker_program": '"train.py"',
            "sagemaker_submit_directory": json.dumps(source),
            "epochs": "4",
        },
    )
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    assert "epochs 5" in aws.log(job["TrainingJobName"])
    assert aws.archive(f"out/{job['TrainingJobName']}/output/model.tar.gz") == {"model.txt": "trained"}


def test_a_job_without_an_entry_point_or_script_names_what_is_missing(aws: Account) -> None:
    job = aws.trained("", AlgorithmSpecification={"TrainingImage": IMAGE, "TrainingInputMode": "File"})
    assert "sagemaker_program" in job["FailureReason"]


def test_source_that_is_not_there_fails_the_job(aws: Account) -> None:
    job = aws.trained(
        "",
        AlgorithmSpecification={"TrainingImage": IMAGE, "TrainingInputMode": "File"},
        HyperParameters={"sagemaker_submit_directory": f'"s3://{aws.bucket}/none.tar.gz"'},
    )
    assert "none.tar.gz" in job["FailureReason"]


def test_an_sdks_describe_waits_for_the_end_of_the_job(holding: Account) -> None:
    name = holding.train("sleep 0.5")
    sdk = holding.client("sagemaker", user_agent_extra="AWS-SageMaker-Python-SDK/2.257.7")
    assert sdk.describe_training_job(TrainingJobName=name)["TrainingJobStatus"] == "Completed"


def test_any_other_describe_is_answered_at_once(holding: Account) -> None:
    name = holding.train("sleep 600")
    started = time.monotonic()
    assert holding.job(name)["TrainingJobStatus"] == "InProgress"
    assert time.monotonic() - started < 280, "it was held, for 300 s"
    holding.client("sagemaker").stop_training_job(TrainingJobName=name)
    holding.ended(name)


def test_boto3s_waiter_need_not_wait_for_its_next_look(holding: Account) -> None:
    name = holding.train("sleep 0.5")
    started = time.monotonic()
    holding.client("sagemaker").get_waiter("training_job_completed_or_stopped").wait(TrainingJobName=name)
    assert time.monotonic() - started < 100, "the waiter itself looks every 120 s"


def test_interpreters_are_chosen_by_the_framework_in_the_images_name(tmp_path: Path) -> None:
    fake = tmp_path / "python"
    fake.write_text("#!/bin/sh\necho tensorflow says $*\n")
    fake.chmod(0o755)
    with running_emulator(tmp_path, pythons={"tensorflow": str(fake)}) as emulator:
        aws = Account(emulator, emulator.bucket(), "chosen")
        printed = []
        for framework in ("tensorflow", "pytorch"):
            image = f"763104351884.dkr.ecr.us-east-1.amazonaws.com/{framework}-training:2.19-gpu-py312"
            specification = {
                "TrainingImage": image,
                "TrainingInputMode": "File",
                "ContainerEntrypoint": ["python3", "-c", "print('pytorch')"],
            }
            job = aws.trained("", AlgorithmSpecification=specification)
            printed += aws.log(job["TrainingJobName"])
    assert printed == ["tensorflow says -c print('pytorch')", "pytorch"]
