"""The SageMaker SDK v2 itself, unchanged, trains, processes and deploys against the emulator."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.archives import archive
from support.emulator_jobs import IMAGE, Account
from support.emulator_models import SERVING_IMAGE
from support.sdk_scripts import run_script

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("sagemaker-v2")]


def test_tensorflow_fit(aws: Account, tmp_path: Path) -> None:
    data = _data(aws)
    result = _run(aws, tmp_path, "v2_tensorflow", aws.emulator.role, data)
    assert result["version"].startswith("2.")
    assert result["status"] == "Completed"
    assert result["metrics"] == {"loss": 0.5}
    assert result["series"][0][0] == "loss"
    # `fit` streams the job's log.
    assert "epoch 1 loss=0.5" in result["printed"]
    model = result["model"].removeprefix(f"s3://{aws.bucket}/")
    assert json.loads(aws.archive(model)["report.json"]) == {
        "greeting": "from beside",
        "name": "two words",
        "epochs": 2,
        "files": ["a.csv"],
        "variable": "given",
        "framework": "sagemaker_tensorflow_container.training:main",
    }


def test_pytorch_fit_deploy_predict_and_delete(aws: Account, tmp_path: Path) -> None:
    result = _run(aws, tmp_path, "v2_pytorch", aws.emulator.role)
    assert result["answer"] == [[7.0], [9.0]]
    assert "Could not find endpoint" in result["left"]


@pytest.mark.nightly
def test_asynchronous_serverless_captured_and_transformed(aws: Account, tmp_path: Path) -> None:
    handler = """
def model_fn(model_dir):
    return True

def transform_fn(model, body, content_type, accept):
    text = body if isinstance(body, str) else body.decode()
    return text.strip().upper(), "text/plain"
"""
    model = aws.put("models/model.tar.gz", archive(**{"code/inference.py": handler.encode()}))
    aws.put("in/a.txt", "one\ntwo\n")
    result = _run(aws, tmp_path, "v2_endpoint_kinds", aws.emulator.role, SERVING_IMAGE, model, aws.bucket)
    answers = [result[kind] for kind in ("async", "serverless", "captured", "stream", "transform")]
    assert answers == ["HELLO", "HELLO", "HELLO", "STREAMED", "Completed"]
    assert aws.get("transformed/a.txt.out") == "ONE\nTWO\n"
    (captured,) = aws.keys("captured/")
    assert json.loads(aws.get(captured))["captureData"]["endpointOutput"]["mode"] == "OUTPUT"


@pytest.mark.nightly
def test_a_trained_model_on_an_asynchronous_and_on_a_multi_model_endpoint(
    aws: Account, tmp_path: Path
) -> None:
    result = _run(aws, tmp_path, "v2_trained_model", aws.emulator.role, aws.bucket)
    assert result["async"] == [[7.0], [9.0]]
    # The SDK reads the failure with the predictor's deserializer, so its error hides the reason, which is in the object.
    assert result["failure"] == "NumpyDeserializer cannot read content type text/plain."
    (failure,) = aws.keys("failures/")
    assert "The model rejects the data" in aws.get(failure)
    assert result["models"] == ["repacked.tar.gz", "trained.tar.gz"]
    assert result["repacked"] == [[7.0], [9.0]]
    assert "trained.tar.gz" in result["trained"]
    assert "model.pth" in result["trained"]
    assert "code/inference.py" in result["trained"]


def test_script_processor_run(aws: Account, tmp_path: Path) -> None:
    result = _run(aws, tmp_path, "v2_processing", aws.emulator.role, IMAGE, _data(aws))
    assert result["status"] == "Completed"
    assert "counted 2" in result["printed"]
    key = result["output"].removeprefix(f"s3://{aws.bucket}/")
    assert aws.get(f"{key}/count.txt") == "['--fast'] 2"


def test_fit_raises_what_the_script_died_of(aws: Account, tmp_path: Path) -> None:
    result = _run(aws, tmp_path, "v2_failing", aws.emulator.role)
    assert result["status"] == "Failed"
    assert "AlgorithmError" in result["message"]
    assert "exit code: 1" in result["message"].lower()


def _data(aws: Account) -> str:
    aws.put("data/a.csv", "1\n2\n")
    return f"s3://{aws.bucket}/data"


def _run(aws: Account, home: Path, script: str, *words: str) -> dict[str, Any]:
    return run_script(script, "sagemaker-v2", aws.emulator, aws.bucket, home, *words)
