"""`gpuproof transform` against an emulator, over HTTP; each test asserts what exists afterwards."""

from __future__ import annotations

import json
import signal

import pytest

from support.cli_sandbox import CliSandbox, until
from support.emulator_jobs import Account
from support.emulator_models import SERVING_IMAGE
from support.transform_sandbox import HANDLER, TYPE, model_data, models, places, words, write_model

pytestmark = pytest.mark.slow


def test_a_model_in_s3_is_created_used_and_deleted(cli: CliSandbox, account: Account) -> None:
    arguments = words(account, "a,b\nc,d\n")
    done = cli.gpuproof("transform", *arguments, "--split", "line", "--records", "one")
    assert done.returncode == 0, done.stderr
    assert account.get("out/x.csv.out") == "<a,b>\n<c,d>\n"
    assert f"results: s3://{account.bucket}/out" in done.stdout
    assert "got text/csv" in done.stdout  # the container's log
    assert "[sagemaker logs]: MaxConcurrentTransforms" in done.stdout
    assert "cost: $" in done.stderr
    assert models(account) == []


def test_an_existing_model_stays(cli: CliSandbox, account: Account) -> None:
    uri = model_data(account)
    account.client("sagemaker").create_model(
        ModelName=account.prefix,
        ExecutionRoleArn=account.emulator.role,
        PrimaryContainer={"Image": SERVING_IMAGE, "ModelDataUrl": uri},
    )
    account.put("in/x.csv", "a\n")
    done = cli.gpuproof("transform", account.prefix, *places(account), *TYPE, "--format", "json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["status"], document["version"]) == ("Completed", 1)
    assert document["cost_usd"] > 0
    assert account.get("out/x.csv.out") == "<a>"
    assert models(account) == [account.prefix]
    done = cli.gpuproof("transform", account.prefix + "x", *places(account), *TYPE)
    assert (done.returncode, f"Did you mean the SageMaker model {account.prefix}?" in done.stderr) == (
        2,
        True,
    ), done.stderr


def test_a_job_that_fails_says_why_and_leaves_no_model(cli: CliSandbox, account: Account) -> None:
    done = cli.gpuproof("transform", *words(account, "fail\n"))
    assert done.returncode == 1
    assert "is Failed: AlgorithmError: See job logs for more information" in done.stderr
    assert "Bad HTTP status received from algorithm: 500" in done.stdout
    assert (models(account), account.keys("out/")) == ([], [])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_stops_the_job_and_deletes_the_model(
    cli: CliSandbox, account: Account, number: signal.Signals
) -> None:
    process = cli.start("transform", *words(account, "wait\n"), "--name", account.prefix)
    client = account.client("sagemaker")

    def started() -> bool:
        found = client.list_transform_jobs(NameContains=account.prefix)["TransformJobSummaries"]
        return bool(found) and "TransformStartTime" in client.describe_transform_job(
            TransformJobName=account.prefix
        )

    until(started, "the job's start")
    process.send_signal(number)
    process.communicate(timeout=120)
    assert process.returncode == 130
    job = client.describe_transform_job(TransformJobName=account.prefix)
    assert job["TransformJobStatus"] == "Stopped"
    assert (models(account), account.keys("out/")) == ([], [])


@pytest.mark.parametrize(
    "fault", ["quota", "capacity,at=creation", "access-denied,operation=CreateTransformJob"]
)
def test_a_rejected_job_leaves_no_model(cli: CliSandbox, account: Account, fault: str) -> None:
    arguments = words(account, "a\n")
    account.emulator.faults(fault)
    done = cli.gpuproof("transform", *arguments)
    assert done.returncode == 5, done.stderr
    assert models(account) == []


def test_capacity_that_is_missing_later_fails_the_job(cli: CliSandbox, account: Account) -> None:
    arguments = words(account, "a\n")
    account.emulator.faults("capacity")
    done = cli.gpuproof("transform", *arguments)
    assert done.returncode == 1
    assert "CapacityError" in done.stderr
    assert models(account) == []


def test_a_dry_run_and_wrong_usage_create_nothing(cli: CliSandbox, account: Account) -> None:
    arguments = words(account, "a\n")
    account.emulator.forget_requests()
    done = cli.gpuproof("transform", *arguments, "--dry-run", "--format", "json")
    assert done.returncode == 0, done.stderr
    calls = json.loads(done.stdout)["calls"]
    assert [call["operation"] for call in calls] == ["create_model", "create_transform_job"]
    assert all(call["undo"] for call in calls)
    for changed, said in (
        (["--input", "data/"], "is neither an S3 address nor a file or folder here"),
        (["--input", "s3:///x"], "is not an S3 address"),
        (["--output", "out"], "is not an S3 address"),
        (["--input", f"s3://{account.bucket}/none/"], "There are no objects at"),
        (["--instance-type", "ml.p5.48xlarge"], "no batch transform on ml.p5.48xlarge"),
        (["--records", "one"], "--records: it has no effect unless --split is line"),
        (["--image", "", "--server", "gpuproof"], "--framework pytorch or --framework tensorflow"),
    ):
        done = cli.gpuproof("transform", *arguments, *changed)
        assert (done.returncode, said in done.stderr) == (2, True), done.stderr
    assert not [name for name in account.emulator.operations() if name.startswith("Create")]


def test_a_folder_is_packed_with_the_server_and_everything_is_deleted(
    cli: CliSandbox, account: Account
) -> None:
    write_model(cli.project / "digits")
    cli.environment["GPUPROOF_BUCKET"] = account.bucket
    account.put("in/x.csv", "a,b\n")
    arguments = ("digits", "--image", SERVING_IMAGE, *places(account), *TYPE)
    done = cli.gpuproof("transform", *arguments, "--name", account.prefix)
    assert done.returncode == 0, done.stderr
    assert account.get("out/x.csv.out") == "<a,b>"
    assert "upload the model (" in done.stderr
    assert (models(account), account.keys("gpuproof/endpoints/")) == ([], [])


def test_the_image_and_its_host_image_follow_from_the_model(cli: CliSandbox, account: Account) -> None:
    """PyTorch's inference image has CUDA 12.4, which needs a driver that the older host image has not."""
    write_model(cli.project / "digits", "import torch\n" + HANDLER)
    cli.environment["GPUPROOF_BUCKET"] = account.bucket
    account.put("in/x.csv", "a\n")
    done = cli.gpuproof("transform", "digits", *places(account), *TYPE, "--dry-run", "--format", "json")
    assert done.returncode == 0, done.stderr
    upload, model, job = json.loads(done.stdout)["calls"]
    assert upload["operation"] == "upload_file"
    container = model["request"]["PrimaryContainer"]
    assert "pytorch-inference" in container["Image"]
    assert container["ModelDataUrl"] == f"s3://{account.bucket}/{upload['request']['Key']}"
    assert "GPUPROOF_SERVER" in container["Environment"]
    resources = job["request"]["TransformResources"]
    assert resources["TransformAmiVersion"] == "al2-ami-sagemaker-batch-gpu-535"


def test_an_image_with_cuda_13_gets_the_newest_host_image_and_a_note(
    cli: CliSandbox, account: Account
) -> None:
    write_model(cli.project / "digits", "import torch\n" + HANDLER)
    account.put("in/x.csv", "a\n")
    image = SERVING_IMAGE.replace("2.6.0-cpu-py312", "2.9.0-gpu-py312-cu130")
    arguments = ("digits", "--image", image, *places(account), *TYPE, "--dry-run")
    cli.environment["GPUPROOF_BUCKET"] = account.bucket
    done = cli.gpuproof("transform", *arguments)
    assert "needs the NVIDIA driver 580" in done.stderr
    assert "al2-ami-sagemaker-batch-gpu-535" in done.stdout


def test_a_run_of_this_machine(cli: CliSandbox, account: Account) -> None:
    cli.environment["GPUPROOF_BUCKET"] = account.bucket
    (cli.project / "train.py").write_text(
        "import os, pathlib\n"
        "code = pathlib.Path(os.environ['SM_MODEL_DIR']) / 'code'\n"
        "code.mkdir()\n"
        f"(code / 'inference.py').write_text({HANDLER!r})\n"
    )
    done = cli.gpuproof("run", "train.py", "--name", "here", "--no-require-gpu")
    assert done.returncode == 0, done.stderr
    account.put("in/x.csv", "a\n")
    done = cli.gpuproof("transform", "here", "--image", SERVING_IMAGE, *places(account), *TYPE)
    assert done.returncode == 0, done.stderr
    assert account.get("out/x.csv.out") == "<a>"
    assert (models(account), account.keys("gpuproof/endpoints/")) == ([], [])


def test_a_model_in_s3_with_another_handler_is_packed_again(cli: CliSandbox, account: Account) -> None:
    cli.environment["GPUPROOF_BUCKET"] = account.bucket
    arguments = words(account, "a\n")
    handler = cli.project / "inference.py"
    handler.write_text(HANDLER.replace("<%s>", "[%s]"))
    done = cli.gpuproof("transform", *arguments, "--code", str(handler))
    assert done.returncode == 0, done.stderr
    assert account.get("out/x.csv.out") == "[a]"
    assert len(account.keys(f"{account.prefix}/")) == 1  # the user's own archive
    assert (models(account), account.keys("gpuproof/endpoints/")) == ([], [])


def test_a_model_whose_data_batch_transform_does_not_support_is_rejected(
    cli: CliSandbox, account: Account
) -> None:
    source = {"S3Uri": model_data(account), "S3DataType": "S3Object", "CompressionType": "Gzip"}
    account.client("sagemaker").create_model(
        ModelName=account.prefix,
        ExecutionRoleArn=account.emulator.role,
        PrimaryContainer={"Image": SERVING_IMAGE, "ModelDataSource": {"S3DataSource": source}},
    )
    account.put("in/x.csv", "a\n")
    done = cli.gpuproof("transform", account.prefix, *places(account), *TYPE)
    assert (done.returncode, "does not support ModelDataSource" in done.stderr) == (2, True), done.stderr
    done = cli.gpuproof("transform", account.prefix, *places(account), *TYPE, "--image", SERVING_IMAGE)
    assert "--image is for a model that is created for the job" in done.stderr
    jobs = account.client("sagemaker").list_transform_jobs(NameContains=account.prefix)
    assert jobs["TransformJobSummaries"] == []


def test_a_second_interrupt_does_not_wait_for_the_end(cli: CliSandbox, account: Account) -> None:
    arguments = words(account, "wait\n")
    process = cli.start("transform", *arguments, "--name", account.prefix)
    client = account.client("sagemaker")

    def status() -> str:
        found = client.list_transform_jobs(NameContains=account.prefix)["TransformJobSummaries"]
        if not found:
            return ""
        job = client.describe_transform_job(TransformJobName=account.prefix)
        return job["TransformJobStatus"] if "TransformStartTime" in job else ""

    until(lambda: status() == "InProgress", "the job's start")
    process.send_signal(signal.SIGINT)
    until(lambda: status() in ("Stopping", "Stopped"), "the stop")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=120)
    assert process.returncode == 130
    assert models(account) == []
    until(lambda: status() == "Stopped", "the end")
