"""`gpuproof deploy gpuproof.yaml`: the keys of the file are flags, and flags take precedence."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpuproof.cli.endpoints.deploy import add_parser
from gpuproof.cli.endpoints.job_file import apply_job_file
from gpuproof.errors import UsageError
from gpuproof.jobs.models.endpoint import EndpointJob
from support.aws_emulator import RunningEmulator, running_emulator
from support.deploy_program import Program
from support.endpoint_sandbox import IMAGE

KEYS = {
    "code": "code",
    "instance_count": 3,
    "min_instances": 2,
    "max_instances": 5,
    "target_concurrency": 2.5,
    "server": "image",
    "image": "example.com/mine:1",
    "framework": "tensorflow",
    "framework_version": "2.19",
    "require_gpu": True,
    "request": "request.json",
    "content_type": "text/csv",
    "startup_timeout": "10m",
    "ttl": "2h",
    "schedule_role": "scheduler",
    "keep_without_schedule": True,
    "async_output": "s3://bucket/answers",
    "async_success": "arn:aws:sns:us-east-1:123456789012:done",
    "async_error": "arn:aws:sns:us-east-1:123456789012:failed",
    "data_capture": "s3://bucket/captured,20",
    "network_isolation": True,
    "role": "serving",
    "bucket": "my-bucket",
    "region": "eu-west-1",
}
FLAGS = {"async_output": "asynchronous"}


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_parser(parser.add_subparsers())
    return parser.parse_args(["deploy", *words])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "gpuproof.yaml"
    job: dict[str, Any] = {
        "kind": "endpoint",
        "name": "digits",
        "model": "m",
        "instance_type": "ml.g5.xlarge",
    }
    for name in ("code", "request.json"):
        (tmp_path / name).touch()
    more = {"environment": {"A": "1", "B": "2"}, "tags": {"team": "vision"}}
    path.write_text(json.dumps({**job, **KEYS, **more}))
    return path


def test_every_key_is_a_setting_of_deploy(file: Path) -> None:
    assert {"kind", "name", "model", "instance_type", "serverless", "environment", "tags", *KEYS} == set(
        EndpointJob.model_fields
    )
    arguments = parsed(str(file))
    apply_job_file(arguments)
    assert (arguments.name, arguments.model, arguments.instance_type) == ("digits", "m", "ml.g5.xlarge")
    for key, value in KEYS.items():
        expected = file.parent / str(value) if key in ("code", "request") else value
        assert getattr(arguments, FLAGS.get(key, key)) == expected, key
    assert (arguments.env, arguments.tag) == (["A=1", "B=2"], ["team=vision"])


def test_flags_take_precedence(file: Path) -> None:
    words = ("--name", "other", "--instance-type", "ml.g6.xlarge", "--no-require-gpu", "--env", "A=9")
    arguments = parsed(str(file), *words, "--ttl", "30m", "--instance-count", "2")
    apply_job_file(arguments)
    assert (arguments.name, arguments.instance_type, arguments.require_gpu) == (
        "other",
        "ml.g6.xlarge",
        False,
    )
    assert (arguments.ttl, arguments.instance_count) == ("30m", 2)
    assert dict(text.split("=") for text in arguments.env) == {"A": "9", "B": "2"}


def test_a_flag_for_a_serverless_endpoint_replaces_the_instance_type_and_the_other_way_round(
    tmp_path: Path,
) -> None:
    path = tmp_path / "gpuproof.yaml"
    path.write_text("kind: endpoint\nname: a\nmodel: m\nserverless: memory=2048,concurrency=1\n")
    arguments = parsed(str(path), "--instance-type", "ml.g5.xlarge")
    apply_job_file(arguments)
    assert (arguments.instance_type, arguments.serverless) == ("ml.g5.xlarge", None)
    path.write_text("kind: endpoint\nname: a\nmodel: m\ninstance_type: ml.g5.xlarge\n")
    arguments = parsed(str(path), "--serverless", "memory=2048,concurrency=1")
    apply_job_file(arguments)
    assert (arguments.instance_type, arguments.serverless) == (None, "memory=2048,concurrency=1")


def test_a_job_without_a_job_file_is_an_error() -> None:
    with pytest.raises(UsageError, match="digits is not a gpuproof"):
        apply_job_file(parsed("digits", "second"))


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningEmulator]:
    with running_emulator(tmp_path_factory.mktemp("aws"), stop_grace=1.0) as running:
        yield running


@pytest.mark.slow
def test_an_endpoint_of_a_file_is_deployed(emulator: RunningEmulator, tmp_path: Path) -> None:
    program = Program(emulator, tmp_path)
    path = tmp_path / "gpuproof.yaml"
    job = {"kind": "endpoint", "model": str(program.model), "image": IMAGE, "require_gpu": False}
    path.write_text(json.dumps({"defaults": {"instance_type": "ml.g5.xlarge"}, "jobs": {"from-file": job}}))
    code, out, errors = program.run("check", str(path))
    assert (code, "no issues found" in out) == (0, True), out + errors
    code, out, errors = program.run("deploy", str(path), "from-file", "--dry-run", "--format", "json")
    assert (code, json.loads(out)["endpoint"]) == (0, "from-file"), errors
    assert program.left("from-file") == []
    code, out, errors = program.run("deploy", str(path))
    assert code == 0, errors
    code, out, errors = program.run("predict", "from-file", "--data", "[1, 2]")
    assert (code, json.loads(out)) == (0, [1, 2]), errors
    code, _, errors = program.run("delete", "from-file")
    assert code == 0, errors
    assert program.left("from-file") == []
