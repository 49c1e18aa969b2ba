"""A PyTorch script in the style of AWS's examples trains on two hosts of the emulator, started with plain boto3."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from support.digits import check_training
from support.emulator_jobs import IMAGE, TWO_HOSTS, Account

pytestmark = pytest.mark.slow

_SCRIPT = "train_digits.py"


def train_on_two_hosts(aws: Account, **parameters: str) -> dict[str, Any]:
    """Train as the images' own `train` program does for jobs of SDK v2; returns the output of Describe."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        archive.add(Path(__file__).parent / "scripts" / "source" / _SCRIPT, _SCRIPT)
    source = aws.put("code/sourcedir.tar.gz", packed.getvalue())
    values = {"sagemaker_program": _SCRIPT, "sagemaker_submit_directory": source, **parameters}
    return aws.trained(
        "",
        AlgorithmSpecification={"TrainingImage": IMAGE, "TrainingInputMode": "File"},
        HyperParameters={name: json.dumps(value) for name, value in values.items()},
        ResourceConfig=TWO_HOSTS,
    )


def test_hosts_find_each_other_by_the_variables_of_the_toolkit(aws: Account) -> None:
    job = train_on_two_hosts(aws)
    name = job["TrainingJobName"]
    lines = [line for host in ("algo-1", "algo-2") for line in aws.log(name, host)]
    assert job["TrainingJobStatus"] == "Completed", lines
    check_training(lines, 2)


def test_the_error_of_the_host_that_fails_first_is_the_failure_reason(aws: Account) -> None:
    job = train_on_two_hosts(aws, **{"fail-on": "algo-2"})
    assert "ValueError: bad batch on algo-2" in job["FailureReason"]
    assert "Connection" not in job["FailureReason"]
