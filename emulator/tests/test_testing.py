"""The pytest plugin gives a user's tests an empty account each."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

CONFTEST = """
import sys
import pytest
pytest_plugins = ["gpuproof_emulator.testing"]

@pytest.fixture(scope="session")
def emulator_options():
    return ("--stop-grace", "2", "--python", sys.executable, "--quota", "ml.p5.48xlarge for training job usage=0")
"""
TESTS = """
import os
import boto3
import pytest
from botocore.exceptions import ClientError

def job(emulator, script):
    return {
        "TrainingJobName": "job",
        "RoleArn": emulator.role,
        "AlgorithmSpecification": {
            "TrainingImage": "image", "TrainingInputMode": "File", "ContainerEntrypoint": ["/bin/sh", "-c", script],
        },
        "OutputDataConfig": {"S3OutputPath": "s3://data/out"},
        "ResourceConfig": {"InstanceType": "ml.g5.xlarge", "InstanceCount": 1, "VolumeSizeInGB": 1},
        "StoppingCondition": {"MaxRuntimeInSeconds": 600},
    }

@pytest.mark.parametrize("number", [1, 2])
def test_each_has_an_empty_account(emulator, number):
    s3, sagemaker = boto3.client("s3"), boto3.client("sagemaker")  # the environment leads to the emulator
    assert s3.list_buckets()["Buckets"] == []
    assert sagemaker.list_training_jobs()["TrainingJobSummaries"] == []
    emulator.bucket("data")
    emulator.faults("throttling,operation=ListModels,count=1")
    sagemaker.create_training_job(**job(emulator, "sleep 600"))
    assert emulator.operations("sagemaker") == ["ListTrainingJobs", "CreateTrainingJob"]

def test_faults_and_quotas_are_those_of_the_start(emulator):
    emulator.quotas({"ml.p5.48xlarge for training job usage": 9})
    emulator.reset()
    request = job(emulator, "true")
    request["ResourceConfig"]["InstanceType"] = "ml.p5.48xlarge"
    with pytest.raises(ClientError, match="ResourceLimitExceeded"):
        boto3.client("sagemaker").create_training_job(**request)
    assert boto3.client("sagemaker").list_models()["Models"] == []

def test_without_the_fixture_the_environment_is_the_users():
    assert os.environ.get("AWS_ENDPOINT_URL") is None
    assert os.environ["AWS_PROFILE"] == "mine"
"""


def test_a_users_suite(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_mine.py").write_text(TESTS)
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "PYTEST"))
    }
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path)],
        cwd=tmp_path,
        env={**environment, "AWS_PROFILE": "mine"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 passed" in done.stdout
