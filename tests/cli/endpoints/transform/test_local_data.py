"""`gpuproof transform --input FOLDER`: data of this machine is uploaded for the job, and deleted at its end."""

from __future__ import annotations

import signal

import pytest

from support.cli_sandbox import CliSandbox, until
from support.emulator_jobs import Account
from support.emulator_models import SERVING_IMAGE
from support.transform_sandbox import TYPE, model_data, models

pytestmark = pytest.mark.slow


def test_data_of_this_machine_is_uploaded_and_deleted(cli: CliSandbox, account: Account) -> None:
    cli.environment["GPUPROOF_BUCKET"] = account.bucket
    uri = model_data(account)
    cli.write("rows/a.csv", "a\n")
    cli.write("rows/more/b.csv", "b\n")
    output = ("--output", f"s3://{account.bucket}/out", *TYPE)
    done = cli.gpuproof("transform", uri, "--image", SERVING_IMAGE, "--input", "rows", *output)
    assert done.returncode == 0, done.stderr
    assert "upload rows (2 files, 4 B) to s3://" in done.stderr
    assert {key: account.get(key) for key in account.keys("out/")} == {
        "out/a.csv.out": "<a>",
        "out/more/b.csv.out": "<b>",
    }
    assert (models(account), account.keys("gpuproof/")) == ([], [])


def test_one_file_of_this_machine_with_a_model_of_sagemaker(cli: CliSandbox, account: Account) -> None:
    account.client("sagemaker").create_model(
        ModelName=account.prefix,
        ExecutionRoleArn=account.emulator.role,
        PrimaryContainer={"Image": SERVING_IMAGE, "ModelDataUrl": model_data(account)},
    )
    path = cli.write("x.csv", "a\n")
    arguments = ("--input", path, "--output", f"s3://{account.bucket}/out", "--bucket", account.bucket, *TYPE)
    done = cli.gpuproof("transform", account.prefix, *arguments)
    assert done.returncode == 0, done.stderr
    assert account.get("out/x.csv.out") == "<a>"
    assert (models(account), account.keys("gpuproof/")) == ([account.prefix], [])


@pytest.mark.parametrize(
    "fault", ["access-denied,operation=CreateTransformJob", "access-denied,operation=CreateModel"]
)
def test_uploaded_data_is_deleted_after_an_error(cli: CliSandbox, account: Account, fault: str) -> None:
    uri = model_data(account)
    cli.write("rows/a.csv", "a\n")
    arguments = (
        "--input",
        "rows",
        "--output",
        f"s3://{account.bucket}/out",
        "--bucket",
        account.bucket,
        *TYPE,
    )
    account.emulator.faults(fault)
    done = cli.gpuproof("transform", uri, "--image", SERVING_IMAGE, *arguments)
    assert done.returncode == 5, done.stderr
    assert (models(account), account.keys("gpuproof/")) == ([], [])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_while_data_is_uploaded_leaves_nothing(
    cli: CliSandbox, account: Account, number: signal.Signals
) -> None:
    uri = model_data(account)
    for count in range(300):
        cli.write(f"rows/{count}.csv", "a\n")
    output = ("--output", f"s3://{account.bucket}/out", "--bucket", account.bucket, *TYPE)
    process = cli.start("transform", uri, "--image", SERVING_IMAGE, "--input", "rows", *output)
    until(lambda: account.keys("gpuproof/endpoints/") or process.poll() is not None, "the first file")
    process.send_signal(number)
    process.communicate(timeout=300)
    assert process.returncode == 130
    assert (models(account), account.keys("gpuproof/")) == ([], [])


def test_secrets_are_not_uploaded(cli: CliSandbox, account: Account) -> None:
    uri = model_data(account)
    cli.write("rows/.env", "TOKEN=1\n")
    output = ("--output", f"s3://{account.bucket}/out", "--bucket", account.bucket, *TYPE)
    done = cli.gpuproof("transform", uri, "--image", SERVING_IMAGE, "--input", "rows", *output)
    assert (done.returncode, ".env in rows looks like a secret" in done.stderr) == (2, True), done.stderr
    assert account.keys("gpuproof/") == []
