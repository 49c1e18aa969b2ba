"""Requests in JSON and YAML files get the checks of their Python twins (SDK105, SDK106, SDK107)."""

import json
from pathlib import Path
from typing import Any

import pytest

from support.check_helpers import check_here, write_files

JOB: dict[str, Any] = {
    "TrainingJobName": "job-1",
    "AlgorithmSpecification": {"TrainingImage": "image:1", "TrainingInputMode": "File"},
    "RoleArn": "arn:aws:iam::111122223333:role/Train",
    "OutputDataConfig": {"S3OutputPath": "s3://bucket/out"},
    "ResourceConfig": {"InstanceType": "ml.g5.xlarge", "InstanceCount": 1, "VolumeSizeInGB": 50},
    "StoppingCondition": {"MaxRuntimeInSeconds": 3600},
}
CODES = ("SDK105", "SDK106", "SDK107")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def found(request: dict[str, Any]) -> list[str]:
    write_files(Path.cwd(), {"request.json": json.dumps(request, indent=2)})
    return [hit.code for hit in check_here(select=CODES).hits]


def test_a_sound_request_is_quiet() -> None:
    assert found(JOB) == []


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"Hyperparameters": {"lr": "0.1"}}, "SDK106"),
        ({"ResourceConfig": {**JOB["ResourceConfig"], "InstanceCount": "1"}}, "SDK106"),
        ({"HyperParameters": {"epochs": 3}}, "SDK106"),
        ({"ResourceConfig": [JOB["ResourceConfig"]]}, "SDK106"),
        ({"TrainingJobName": "my_job"}, "SDK107"),
        ({"RoleArn": "arn:aws:iam::1:role/Train"}, "SDK107"),
        ({"OutputDataConfig": {"KmsKeyId": "k"}}, "SDK105"),
    ],
)
def test_what_botocore_or_the_service_rejects(change: dict[str, Any], code: str) -> None:
    assert found({**JOB, **change}) == [code]


def test_the_description_of_a_job_is_no_request() -> None:
    described = {
        **JOB,
        "TrainingJobArn": "arn",
        "TrainingJobStatus": "Completed",
        "CreationTime": "2026-01-01",
    }
    assert found(described) == []


def test_other_documents_with_instance_types_are_not_requests() -> None:
    assert found({"InstanceType": "ml.g5.xlarge", "Anything": {"JobName": "my_job"}}) == []


def test_a_request_in_yaml(here: Path) -> None:
    lines = [
        "TransformJobName: score_1",
        "ModelName: m",
        "TransformResources: {InstanceType: ml.g5.xlarge, InstanceCount: 1}",
    ]
    lines += [
        "TransformInput: {DataSource: {S3DataSource: {S3DataType: S3Prefix, S3Uri: s3://b/x}}}",
        "TransformOutput: {S3OutputPath: s3://b/y}",
    ]
    write_files(here, {"score.yaml": "\n".join(lines)})
    hits = check_here(select=CODES).hits
    assert [(hit.code, hit.span.line) for hit in hits] == [("SDK107", 1)]
