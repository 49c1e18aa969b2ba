"""Endpoints in a gpuproof.yaml."""

from __future__ import annotations

from pathlib import Path

import jsonschema
import pytest

from gpuproof.errors import InvalidJob, UsageError
from gpuproof.jobs.load import load, load_as, load_jobs
from gpuproof.jobs.models.endpoint import DataCapture, EndpointJob, Serverless
from gpuproof.jobs.schema import json_schema
from gpuproof.jobs.yaml_file import reader
from gpuproof.units import Duration

EVERYTHING = """
defaults:
  instance_type: ml.g5.xlarge
  environment: {LEVEL: 1}
jobs:
  train: {entry_point: train.py}
  digits:
    kind: endpoint
    model: ./digits
    code: serving
    instance_count: 2
    min_instances: 1
    max_instances: 4
    target_concurrency: 2.5
    server: gpuproof
    image: 123456789012.dkr.ecr.us-east-1.amazonaws.com/mine:1
    framework: pytorch
    framework_version: 2.10
    environment: {MODE: fast}
    require_gpu: false
    request: sample.csv
    content_type: text/csv
    startup_timeout: 15m
    ttl: 2h
    schedule_role: scheduler
    keep_without_schedule: true
    async_output: s3://bucket/answers
    async_success: arn:aws:sns:us-east-1:123456789012:done
    async_error: arn:aws:sns:us-east-1:123456789012:failed
    data_capture: s3://bucket/captured,20
    network_isolation: true
    role: arn:aws:iam::123456789012:role/serving
    bucket: my-bucket
    region: eu-west-1
    tags: {team: vision}
  small: {kind: endpoint, model: train, instance_type: null, serverless: "memory=4096,concurrency=5"}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    for name in ("train.py", "sample.csv"):
        (tmp_path / name).touch()
    for name in ("digits", "serving"):
        (tmp_path / name).mkdir()
    path = tmp_path / "gpuproof.yaml"
    path.write_text(EVERYTHING)
    return path


def test_a_file_describes_endpoints(file: Path) -> None:
    job = load_as(file, "digits", EndpointJob)
    assert (job.model, job.code) == (str(file.parent / "digits"), str(file.parent / "serving"))
    assert job.request == str(file.parent / "sample.csv")
    assert (job.instance_type, job.instance_count, job.framework_version) == ("ml.g5.xlarge", 2, "2.10")
    assert job.environment == {"LEVEL": "1", "MODE": "fast"}
    assert (job.ttl, job.startup_timeout, job.require_gpu) == (Duration(7200), Duration(900), False)
    small = load_as(file, "small", EndpointJob)
    assert (small.model, small.serverless, small.instance_type) == (
        "train",
        Serverless(4096, 5),
        None,
    )


def test_the_schema_takes_what_the_file_may_have(file: Path) -> None:
    check = jsonschema.Draft202012Validator(json_schema())
    assert check.is_valid(reader.read(file.read_bytes()).data)
    assert check.is_valid({"kind": "endpoint", "name": "a", "model": "m", "instance_type": "ml.g5.xlarge"})
    assert not check.is_valid({"kind": "endpoint", "name": "a", "model": "m", "entry_point": "train.py"})
    assert not check.is_valid({"kind": "endpoint", "name": "a", "instance_type": "ml.g5.xlarge"})


def test_run_names_the_command_that_deploys(file: Path) -> None:
    assert load(file).name == "train"
    with pytest.raises(
        UsageError, match="'digits' is an endpoint, which gpuproof run does not take"
    ) as error:
        load(file, "digits")
    assert error.value.remedy == f"gpuproof deploy {file} digits"


@pytest.mark.parametrize(
    ("keys", "part"),
    [
        ({"instance_type": None}, "instance_type"),
        ({"serverless": "memory=4096"}, "remove one of them"),
        ({"instance_type": None, "serverless": "4096"}, "memory=4096,concurrency=5"),
        ({"instance_type": None, "serverless": "memory=1024,gpu=1"}, "memory=4096,concurrency=5"),
        ({"instance_type": None, "serverless": "memory=4000"}, "1024, 2048, 3072, 4096, 5120, 6144 MB"),
        ({"instance_type": None, "serverless": "concurrency=0"}, "a concurrency of 1 to 200"),
        ({"instance_type": None, "serverless": "memory=1024", "require_gpu": True}, "has no require_gpu"),
        ({"instance_type": None, "serverless": "memory=1024", "instance_count": 2}, "has no instance_count"),
        ({"min_instances": 2, "max_instances": 4}, "not in ascending order"),
        ({"instance_count": 5, "max_instances": 4}, "not in ascending order"),
        ({"max_instances": 4, "target_concurrency": 0}, "target_concurrency"),
        ({"target_concurrency": 4}, "no effect without max_instances"),
        ({"async_error": "arn:aws:sns:us-east-1:123456789012:e"}, "no effect without async_output"),
        ({"async_output": "bucket/answers"}, "s3:// address"),
        ({"data_capture": "bucket,20"}, "s3://BUCKET/PREFIX,20"),
        ({"data_capture": "s3://b/x,0"}, "s3://BUCKET/PREFIX,20"),
        ({"data_capture": "s3://b/x,101"}, "s3://BUCKET/PREFIX,20"),
        ({"data_capture": "s3://b/x,half"}, "s3://BUCKET/PREFIX,20"),
        ({"ttl": "10m"}, "shortest life of an endpoint"),
        ({"startup_timeout": "2h"}, "is not between"),
        ({"instance_count": 0}, "instance_count"),
        ({"framework": "keras"}, "pytorch"),
        ({"max_duration": "8h"}, "write ttl"),
        ({"entry_point": "inference.py"}, "write model"),
    ],
)
def test_what_is_invalid_is_named(keys: dict[str, object], part: str) -> None:
    with pytest.raises(InvalidJob, match=part):
        EndpointJob(**{"name": "e", "model": "m", "instance_type": "ml.g5.xlarge", **keys})


def test_data_capture_takes_an_address_and_a_percentage() -> None:
    assert DataCapture.parse("s3://b/x") == DataCapture("s3://b/x", 100)
    assert DataCapture.parse("s3://b/x,20%") == DataCapture("s3://b/x", 20)


def test_files_that_do_not_exist_are_named_with_their_line(tmp_path: Path) -> None:
    path = tmp_path / "gpuproof.yaml"
    path.write_text(
        "kind: endpoint\nname: e\ninstance_type: ml.g5.xlarge\n"
        "model: ./nothing\ncode: handler.py\nrequest: r.json\n"
    )
    with pytest.raises(InvalidJob) as error:
        load_jobs(path)
    lines = {problem.line: problem.message for problem in error.value.problems}
    assert sorted(lines) == [4, 5, 6]
    assert "nothing does not exist" in lines[4]


def test_a_model_without_a_file_of_its_name_is_a_run(tmp_path: Path) -> None:
    path = tmp_path / "gpuproof.yaml"
    path.write_text("kind: endpoint\nname: e\ninstance_type: ml.g5.xlarge\nmodel: digits\n")
    assert load_as(path, None, EndpointJob).model == "digits"
    (tmp_path / "digits").mkdir()
    assert load_as(path, None, EndpointJob).model == str(tmp_path / "digits")
