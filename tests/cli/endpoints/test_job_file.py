"""The job of `gpuproof deploy`: the keys of a file are flags, and flags take precedence."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuproof.cli.arguments import read_job
from gpuproof.cli.endpoints.deploy import add_parser
from gpuproof.errors import UsageError
from gpuproof.jobs.models.endpoint import EndpointJob, Scaling, Serverless
from gpuproof.jobs.options import command_options
from gpuproof.units import Duration
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


def read(*words: str) -> EndpointJob:
    parser = argparse.ArgumentParser()
    add_parser(parser.add_subparsers())
    arguments = parser.parse_args(["deploy", *words])
    return read_job(arguments, "deploy", EndpointJob, arguments.model, "model")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "gpuproof.yaml"
    job = {"kind": "endpoint", "name": "digits", "model": "m", "instance_type": "ml.g5.xlarge"}
    for name in ("code", "request.json"):
        (tmp_path / name).touch()
    more = {"environment": {"A": "1", "B": "2"}, "tags": {"team": "vision"}}
    path.write_text(json.dumps({**job, **KEYS, **more}))
    return path


def test_every_key_is_a_setting_of_deploy_and_every_key_but_the_kind_a_flag(file: Path) -> None:
    keys = {"name", "model", "instance_type", "serverless", "environment", "tags", *KEYS}
    assert {"kind", *keys} == set(EndpointJob.model_fields)
    assert keys == {option.key for option in command_options("deploy").values()}
    job = read(str(file))
    assert (job.name, job.model, job.instance_type) == ("digits", "m", "ml.g5.xlarge")
    for key, value in KEYS.items():
        expected = str(file.parent / str(value)) if key in ("code", "request") else str(value)
        assert str(getattr(job, key)) == expected, key
    assert (job.environment, job.tags) == ({"A": "1", "B": "2"}, {"team": "vision"})


def test_flags_take_precedence(file: Path) -> None:
    words = ("--name", "other", "--instance-type", "ml.g6.xlarge", "--no-require-gpu", "--env", "A=9")
    job = read(str(file), *words, "--ttl", "30m", "--instance-count", "2", "--tag", "cost=7")
    assert (job.name, job.instance_type, job.require_gpu) == ("other", "ml.g6.xlarge", False)
    assert (job.ttl, job.instance_count) == (Duration(1800), 2)
    assert (job.environment, job.tags) == ({"A": "9", "B": "2"}, {"team": "vision", "cost": "7"})


def test_flags_alone_describe_an_endpoint(tmp_path: Path) -> None:
    job = read(str(tmp_path), "--instance-type", "ml.g5.xlarge", "--max-instances", "3", "--env", "N=1")
    assert (job.model, job.scaling, job.environment) == (str(tmp_path), Scaling(1, 3, 4.0), {"N": "1"})


def test_a_flag_for_a_serverless_endpoint_replaces_the_instance_type_and_the_other_way_round(
    tmp_path: Path,
) -> None:
    path = tmp_path / "gpuproof.yaml"
    path.write_text("kind: endpoint\nname: a\nmodel: m\nserverless: memory=2048,concurrency=1\n")
    job = read(str(path), "--instance-type", "ml.g5.xlarge")
    assert (job.instance_type, job.serverless) == ("ml.g5.xlarge", None)
    path.write_text("kind: endpoint\nname: a\nmodel: m\ninstance_type: ml.g5.xlarge\n")
    job = read(str(path), "--serverless", "memory=2048,concurrency=1")
    assert (job.instance_type, job.serverless) == (None, Serverless(2048, 1))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "--instance-type: it is missing"),
        (("--serverless", "memory=1"), "--serverless: serverless endpoints have"),
        (("--instance-type", "ml.g5.xlarge", "--ttl", "10m"), "--ttl: 10m is less than 30m"),
        (("--instance-type", "ml.g5.xlarge", "--async-error", "arn"), "--async-error: 'arn' is not"),
        (("--instance-type", "ml.g5.xlarge", "--instance-count", "two"), "--instance-count must be a whole"),
        (
            ("--instance-type", "ml.g5.xlarge", "--min-instances", "1"),
            "--min-instances: it has no effect without --max-instances",
        ),
        (("--instance-type", "ml.g5.xlarge", "--env", "A"), "--env 'A' is not NAME=VALUE"),
        (("--instance-type", "ml.g5.xlarge", "--code", "none.py"), "--code: none.py does not exist"),
    ],
)
def test_what_is_invalid_is_named_by_its_flag(words: tuple[str, ...], message: str) -> None:
    with pytest.raises(UsageError) as error:
        read("digits", *words)
    assert message in str(error.value)


def test_a_job_without_a_job_file_is_an_error() -> None:
    with pytest.raises(UsageError, match="digits is not a gpuproof"):
        read("digits", "second")


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
