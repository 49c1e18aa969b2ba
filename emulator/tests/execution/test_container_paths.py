"""A path that a request names never leads out of the instance's disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpuproof_emulator.execution.container_paths import PROCESSING_ROOT, ROOT, host_path, is_below
from gpuproof_emulator.operations import processing, training
from gpuproof_emulator.protocol import AwsError
from support.emulator_context import make_call, make_context

_LEADING_OUT = (
    "/opt/ml/../../etc",
    "/opt/ml/processing/../../../../tmp/x",
    "/opt/ml/processing/a/../../../x",
    "/opt/ml/..",
    "/opt/mlx",
    "/etc",
    "opt/ml/x",
    "../x",
    "",
    "/opt/ml/a\0b",
)


@pytest.mark.parametrize("path", _LEADING_OUT)
def test_a_path_that_leads_out_is_not_below(path: str, tmp_path: Path) -> None:
    assert not is_below(path, ROOT) or not is_below(path, PROCESSING_ROOT)
    if path.startswith("/opt/ml/processing"):
        assert not is_below(path, PROCESSING_ROOT)
    if not is_below(path, ROOT):
        with pytest.raises(ValueError, match="not below"):
            host_path(tmp_path, path)


@pytest.mark.parametrize(
    ("path", "below"), [("/opt/ml", "."), ("/opt/ml/", "."), ("/opt/ml/a/./b/", "a/b"), ("/opt/ml//a", "a")]
)
def test_other_paths_are_on_the_disk(path: str, below: str, tmp_path: Path) -> None:
    assert host_path(tmp_path, path) == tmp_path / below


@pytest.mark.parametrize("path", ["/opt/ml/checkpoints/../../../tmp/x", "checkpoints"])
def test_a_checkpoint_path_is_checked_at_creation(path: str, tmp_path: Path) -> None:
    request = {"CheckpointConfig": {"S3Uri": "s3://b/c", "LocalPath": path}}
    assert "LocalPath" in _rejection(training.create, {**_TRAINING, **request}, tmp_path)


@pytest.mark.parametrize("name", [".", ".."])
def test_a_channel_is_no_step_upwards(name: str, tmp_path: Path) -> None:
    source = {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": "s3://b/a"}}
    request = {**_TRAINING, "InputDataConfig": [{"ChannelName": name, "DataSource": source}]}
    assert f"ChannelName {name} " in _rejection(training.create, request, tmp_path)


@pytest.mark.parametrize("path", ["/opt/ml/processing/../../../tmp/x", "/opt/ml/model"])
def test_paths_of_processing_are_checked_at_creation(path: str, tmp_path: Path) -> None:
    source = {"S3Uri": "s3://b/a", "S3DataType": "S3Prefix", "LocalPath": path}
    target = {"S3Uri": "s3://b/a", "S3UploadMode": "EndOfJob", "LocalPath": path}
    inputs = {**_PROCESSING, "ProcessingInputs": [{"InputName": "i", "S3Input": source}]}
    outputs = {
        **_PROCESSING,
        "ProcessingOutputConfig": {"Outputs": [{"OutputName": "o", "S3Output": target}]},
    }
    for request in (inputs, outputs):
        assert "without '..'" in _rejection(processing.create, request, tmp_path)


_TRAINING: dict[str, Any] = {
    "TrainingJobName": "job",
    "RoleArn": "arn:aws:iam::123456789012:role/r",
    "AlgorithmSpecification": {"TrainingImage": "image", "TrainingInputMode": "File"},
    "OutputDataConfig": {"S3OutputPath": "s3://b/out"},
    "ResourceConfig": {"InstanceType": "ml.g5.xlarge", "InstanceCount": 1, "VolumeSizeInGB": 1},
}
_PROCESSING: dict[str, Any] = {
    "ProcessingJobName": "job",
    "RoleArn": "arn:aws:iam::123456789012:role/r",
    "AppSpecification": {"ImageUri": "image"},
    "ProcessingResources": {"ClusterConfig": {"InstanceType": "ml.g5.xlarge", "InstanceCount": 1}},
}


def _rejection(create: Any, request: dict[str, Any], folder: Path) -> str:
    with pytest.raises(AwsError) as caught:
        create(make_call(make_context(folder), request))
    assert caught.value.code == "ValidationException"
    return caught.value.message
