"""Every form of MODEL that `gpuproof deploy` takes, by the programs, on the emulator."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.aws_emulator import RunningEmulator, running_emulator
from support.deploy_program import Program
from support.endpoint_sandbox import ECHO, IMAGE

pytestmark = pytest.mark.slow

DOUBLE = ECHO.replace("return data", "return data * 2")
TRAIN = f"""
import os, pathlib

code = pathlib.Path(os.environ["SM_MODEL_DIR"]) / "code"
code.mkdir()
(code / "inference.py").write_text({ECHO!r})
"""
TRAINING_IMAGE = IMAGE.replace("-inference", "-training")


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningEmulator]:
    with running_emulator(tmp_path_factory.mktemp("aws"), stop_grace=1.0) as running:
        yield running


@pytest.fixture
def program(emulator: RunningEmulator, tmp_path: Path) -> Program:
    return Program(emulator, tmp_path)


def deployed(program: Program, name: str, model: str, *words: str) -> object:
    """The answer to [1, 2] of an endpoint with a model, which is deleted: nothing of it may be left."""
    flags = ("--name", name, "--instance-type", "ml.g5.xlarge", "--image", IMAGE, "--no-require-gpu", *words)
    code, _, errors = program.run("deploy", model, *flags)
    assert code == 0, errors
    code, out, errors = program.run("predict", name, "--data", "[1, 2]")
    assert code == 0, errors
    code, _, errors = program.run("delete", name)
    assert code == 0, errors
    assert program.left(name) == []
    return json.loads(out)


def packed(program: Program) -> Path:
    archive = program.model.parent / "model.tar.gz"
    code, _, errors = program.run("package", str(program.model), "-o", str(archive))
    assert code == 0, errors
    return archive


def in_s3(program: Program) -> str:
    program.emulator.client("s3").upload_file(str(packed(program)), program.bucket, "mine/model.tar.gz")
    return f"s3://{program.bucket}/mine/model.tar.gz"


def stays(program: Program, key: str = "mine/model.tar.gz") -> bool:
    found = program.emulator.client("s3").list_objects_v2(Bucket=program.bucket, Prefix=key)
    return found["KeyCount"] == 1


def test_a_folder(program: Program) -> None:
    assert deployed(program, "folder", str(program.model)) == [1, 2]


def test_a_model_tar_gz_of_this_machine(program: Program) -> None:
    archive = packed(program)
    assert deployed(program, "archive", str(archive)) == [1, 2]
    assert archive.exists()


def test_a_model_tar_gz_in_s3_stays_there(program: Program) -> None:
    assert deployed(program, "remote", in_s3(program)) == [1, 2]
    assert stays(program)


def test_a_model_tar_gz_in_s3_with_another_handler(program: Program, tmp_path: Path) -> None:
    address = in_s3(program)
    handler = tmp_path / "inference.py"
    handler.write_text(DOUBLE)
    assert deployed(program, "handler", address, "--code", str(handler)) == [1, 2, 1, 2]
    assert deployed(program, "unchanged", address) == [1, 2]


def test_a_local_run(program: Program, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    code, _, errors = program.run("run", str(tmp_path / "train.py"), "--name", "here", "--no-require-gpu")
    assert code == 0, errors
    assert deployed(program, "from-local", "here") == [1, 2]


def test_a_run_on_sagemaker_whose_model_stays_where_the_job_put_it(program: Program, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    flags = ("--on", "sagemaker", "--instance-type", "ml.g5.xlarge", "--image", TRAINING_IMAGE)
    code, _, errors = program.run(
        "run", str(tmp_path / "train.py"), "--name", "there", "--no-require-gpu", *flags
    )
    assert code == 0, errors
    (job,) = program.emulator.client("sagemaker").list_training_jobs(NameContains="there")[
        "TrainingJobSummaries"
    ]
    assert deployed(program, "from-sagemaker", job["TrainingJobName"]) == [1, 2]
    description = program.emulator.client("sagemaker").describe_training_job(
        TrainingJobName=job["TrainingJobName"]
    )
    address = description["ModelArtifacts"]["S3ModelArtifacts"].removeprefix("s3://")
    bucket, _, key = address.partition("/")
    assert program.emulator.client("s3").head_object(Bucket=bucket, Key=key)


def test_a_serverless_endpoint_of_a_model_in_s3_has_it_packed_with_the_server(program: Program) -> None:
    """SageMaker has no ModelDataSource for serverless endpoints."""
    flags = ("--serverless", "memory=2048,concurrency=2", "--name", "small", "--image", IMAGE)
    code, _, errors = program.run("deploy", in_s3(program), *flags)
    assert code == 0, errors
    code, out, errors = program.run("predict", "small", "--data", "[1, 2]")
    assert (code, json.loads(out)) == (0, [1, 2]), errors
    code, _, errors = program.run("delete", "small")
    assert code == 0, errors
    assert program.left("small") == []
    assert stays(program)
