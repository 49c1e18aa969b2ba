"""`gpuproof transform --detach`, and `gpuproof stop`, which ends the job and deletes what was created for it."""

from __future__ import annotations

import json

import pytest

from support.cli_sandbox import CliSandbox, until
from support.emulator_jobs import Account
from support.emulator_models import SERVING_IMAGE
from support.transform_sandbox import TYPE, model_data, models, words, write_model

pytestmark = pytest.mark.slow


def test_a_detached_job_runs_on(cli: CliSandbox, account: Account) -> None:
    done = cli.gpuproof("transform", *words(account, "a\n"), "--detach")
    assert done.returncode == 0, done.stderr
    name = done.stdout.strip()
    until(lambda: account.keys("out/"), "the result")
    assert models(account) == [name]
    assert f"gpuproof stop {name}: stops it, and deletes its model, also when it has ended" in done.stderr
    done = cli.gpuproof("stop", name)
    assert (done.returncode, done.stdout) == (0, f"{name}: Completed; what was created for it is deleted\n")
    assert models(account) == []
    assert account.keys(f"{account.prefix}/") != []  # the user's own archive


def test_a_detached_job_is_stopped_and_everything_that_was_created_for_it_deleted(
    cli: CliSandbox, account: Account
) -> None:
    cli.environment["GPUPROOF_BUCKET"] = account.bucket
    write_model(cli.project / "digits")
    cli.write("rows/x.csv", "wait\n")
    arguments = (
        "digits",
        "--image",
        SERVING_IMAGE,
        "--input",
        "rows",
        "--output",
        f"s3://{account.bucket}/out",
    )
    done = cli.gpuproof(
        "transform", *arguments, *TYPE, "--name", account.prefix, "--detach", "--format", "json"
    )
    assert (done.returncode, json.loads(done.stdout)["name"]) == (0, account.prefix), done.stderr
    assert len(account.keys("gpuproof/endpoints/")) == 2
    done = cli.gpuproof("stop", account.prefix, "--format", "json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["runs"] == [{"id": account.prefix, "status": "Stopped"}]
    assert (models(account), account.keys("gpuproof/endpoints/"), account.keys("out/")) == ([], [], [])


@pytest.mark.parametrize("operation", ["StopTransformJob", "DeleteModel"])
def test_what_stop_may_not_do_is_named_and_the_exit_code_says_so(
    cli: CliSandbox, account: Account, operation: str
) -> None:
    arguments = words(account, "wait\n")
    done = cli.gpuproof("transform", *arguments, "--name", account.prefix, "--detach")
    assert done.returncode == 0, done.stderr
    account.emulator.faults(f"access-denied,operation={operation}")
    done = cli.gpuproof("stop", account.prefix)
    assert (done.returncode, operation in done.stderr) == (5, True), done.stderr
    assert models(account) == ([account.prefix] if operation == "DeleteModel" else [])
    account.emulator.faults()
    assert cli.gpuproof("stop", account.prefix).returncode == 0
    assert models(account) == []


def test_a_job_of_somebody_else_is_stopped_and_its_model_stays(cli: CliSandbox, account: Account) -> None:
    client = account.client("sagemaker")
    client.create_model(
        ModelName=account.prefix,
        ExecutionRoleArn=account.emulator.role,
        PrimaryContainer={"Image": SERVING_IMAGE, "ModelDataUrl": model_data(account)},
    )
    source = {"S3DataType": "S3Prefix", "S3Uri": account.put("in/x.csv", "wait\n")}
    client.create_transform_job(
        TransformJobName=account.prefix,
        ModelName=account.prefix,
        TransformInput={"DataSource": {"S3DataSource": source}},
        TransformOutput={"S3OutputPath": f"s3://{account.bucket}/out"},
        TransformResources={"InstanceType": "ml.g5.xlarge", "InstanceCount": 1},
    )
    done = cli.gpuproof("stop", account.prefix)
    assert done.returncode == 0, done.stderr
    assert client.describe_transform_job(TransformJobName=account.prefix)["TransformJobStatus"] == "Stopped"
    assert models(account) == [account.prefix]
    done = cli.gpuproof("stop", account.prefix + "x")
    assert (done.returncode, "No run" in done.stderr) == (2, True), done.stderr
