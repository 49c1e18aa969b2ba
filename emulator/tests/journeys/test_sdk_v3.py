"""The SageMaker SDK v3 itself, unchanged, trains against the emulator."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.digits import check_training
from support.emulator_jobs import IMAGE, Account
from support.sdk_scripts import run_script

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("sagemaker-v3")]


def test_model_trainer_train(aws: Account, tmp_path: Path) -> None:
    aws.put("data/a.csv", "1\n2\n")
    data = f"s3://{aws.bucket}/data"
    words = (aws.emulator.role, IMAGE, data)
    output = run_script("v3_training", "sagemaker-v3", aws.emulator, aws.bucket, tmp_path, *words)
    assert output["version"].startswith("3.")
    assert output["status"] == "Completed"
    assert any("epoch 1 loss=0.5" in line for line in aws.log(output["job"]))
    report = json.loads(aws.archive(output["model"].removeprefix(f"s3://{aws.bucket}/"))["report.json"])
    assert (report["greeting"], report["name"], report["epochs"]) == ("from beside", "two words", 2)
    assert (report["files"], report["variable"]) == (["a.csv"], "given")


def test_torchrun_on_two_hosts(aws: Account, tmp_path: Path) -> None:
    output = run_script(
        "v3_torchrun", "sagemaker-v3", aws.emulator, aws.bucket, tmp_path, aws.emulator.role, IMAGE
    )
    assert output["status"] == "Completed"
    lines = [line for host in ("algo-1", "algo-2") for line in aws.log(output["job"], host)]
    check_training(lines, 2)
