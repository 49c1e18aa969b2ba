"""The mended jobs and endpoints of the articles run to the end on the emulator, started by AWS's own SDK v2 and boto3."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
import torch

from support.archives import archive

from .conftest import Launcher

pytestmark = [pytest.mark.slow, pytest.mark.journey, pytest.mark.xdist_group("sagemaker-v2")]


def left(launcher: Launcher) -> list[object]:
    """The endpoints, their configurations and models of the account."""
    client = launcher.aws.client("sagemaker")
    return [
        *client.list_endpoints()["Endpoints"],
        *client.list_endpoint_configs()["EndpointConfigs"],
        *client.list_models()["Models"],
    ]


def saved_files(launcher: Launcher, uri: str) -> list[str]:
    """The names of the files in a model.tar.gz."""
    import tarfile

    key = uri.removeprefix(f"s3://{launcher.aws.bucket}/")
    body = launcher.aws.client("s3").get_object(Bucket=launcher.aws.bucket, Key=key)["Body"].read()
    with tarfile.open(fileobj=io.BytesIO(body)) as content:
        return content.getnames()


def test_the_estimator_trains(launcher: Launcher) -> None:
    printed = launcher.run("sagemaker_gpus/estimator")
    assert "1/saved_model.pb" in saved_files(launcher, printed["model"])


def test_the_pytorch_model_answers_and_is_deleted(launcher: Launcher) -> None:
    weights = io.BytesIO()
    torch.save(torch.nn.Linear(3, 2).state_dict(), weights)
    model = launcher.aws.put("models/model.tar.gz", archive(**{"model.pth": weights.getvalue()}))
    assert launcher.run("sagemaker_gpus/endpoint", MODEL=model)["answer"] == "(2, 2)"
    assert left(launcher) == []


def test_the_processor_writes_its_output(launcher: Launcher) -> None:
    rows = io.BytesIO()
    np.save(rows, np.eye(3, dtype="float32") * 2)
    launcher.aws.put("raw/rows.npy", rows.getvalue())
    printed = launcher.run("sagemaker_gpus/processor", DATA=f"s3://{launcher.aws.bucket}/raw")
    key = printed["output"].removeprefix(f"s3://{launcher.aws.bucket}/") + "/rows.npy"
    body = launcher.aws.client("s3").get_object(Bucket=launcher.aws.bucket, Key=key)["Body"].read()
    assert np.load(io.BytesIO(body)).tolist() == (np.eye(3) * 4).tolist()


def test_the_boto3_job_trains(launcher: Launcher) -> None:
    printed = launcher.run("keras_sagemaker/boto3_job", sdk=None)
    assert printed["status"].split() == ["Completed"]
    assert "1/saved_model.pb" in saved_files(launcher, printed["model"])


def test_a_model_is_trained_and_served(launcher: Launcher) -> None:
    model = launcher.run("t3_without_gpu/training")["model"]
    assert "1/saved_model.pb" in saved_files(launcher, model)
    answer = launcher.run("t3_without_gpu/endpoint", MODEL=model)["answer"]
    (row,) = json.loads(answer.replace("'", '"'))["predictions"]
    assert len(row) == 1
    assert 0.0 <= row[0] <= 1.0
    assert left(launcher) == []
