"""`gpuproof transform` against an emulator, over HTTP; each test asserts what exists afterwards."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.archives import archive
from support.aws_emulator import RunningEmulator, running_emulator
from support.cli_sandbox import CliSandbox, until
from support.emulator_jobs import Account
from support.emulator_models import SERVING_IMAGE

pytestmark = pytest.mark.slow

HANDLER = """
import time

def model_fn(model_dir):
    return "m"

def transform_fn(model, body, content_type, accept):
    text = body if isinstance(body, str) else body.decode()
    print("got", content_type, flush=True)
    if "fail" in text:
        raise RuntimeError("a bug")
    if "wait" in text:
        time.sleep(100)
    return "<%s>" % text.strip(), "text/csv"
"""
TYPE = ("--instance-type", "ml.g5.xlarge")


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningEmulator]:
    with running_emulator(tmp_path_factory.mktemp("aws"), stop_grace=5.0) as started:
        yield started


@pytest.fixture
def account(emulator: RunningEmulator, request: pytest.FixtureRequest) -> Iterator[Account]:
    name = f"t{abs(hash(request.node.name)) % 10**8}"
    yield Account(emulator, emulator.bucket(f"{name}-data"), name)
    emulator.faults()


@pytest.fixture
def cli(tmp_path: Path, emulator: RunningEmulator) -> CliSandbox:
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    project.mkdir()
    return CliSandbox(home, project, {**emulator.credentials, "GPUPROOF_ROLE_ARN": emulator.role})


def test_a_model_in_s3_is_created_used_and_deleted(cli: CliSandbox, account: Account) -> None:
    words = _words(account, "a,b\nc,d\n")
    done = cli.gpuproof("transform", *words, "--split", "line", "--records", "one")
    assert done.returncode == 0, done.stderr
    assert account.get("out/x.csv.out") == "<a,b>\n<c,d>\n"
    assert f"results: s3://{account.bucket}/out" in done.stdout
    assert "got text/csv" in done.stdout  # the container's log
    assert "[sagemaker logs]: MaxConcurrentTransforms" in done.stdout
    assert "cost: $" in done.stderr
    assert _models(account) == []


def test_an_existing_model_stays(cli: CliSandbox, account: Account) -> None:
    uri = _model_data(account)
    account.client("sagemaker").create_model(
        ModelName=account.prefix,
        ExecutionRoleArn=account.emulator.role,
        PrimaryContainer={"Image": SERVING_IMAGE, "ModelDataUrl": uri},
    )
    account.put("in/x.csv", "a\n")
    done = cli.gpuproof("transform", account.prefix, *_places(account), *TYPE, "--format", "json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["status"], document["schema_version"]) == ("Completed", 1)
    assert document["cost_usd"] > 0
    assert account.get("out/x.csv.out") == "<a>"
    assert _models(account) == [account.prefix]
    done = cli.gpuproof("transform", account.prefix + "x", *_places(account), *TYPE)
    assert (done.returncode, f"Did you mean the SageMaker model {account.prefix}?" in done.stderr) == (
        2,
        True,
    ), done.stderr


def test_a_job_that_fails_says_why_and_leaves_no_model(cli: CliSandbox, account: Account) -> None:
    done = cli.gpuproof("transform", *_words(account, "fail\n"))
    assert done.returncode == 1
    assert "is Failed: AlgorithmError: See job logs for more information" in done.stderr
    assert "Bad HTTP status received from algorithm: 500" in done.stdout
    assert (_models(account), account.keys("out/")) == ([], [])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_stops_the_job_and_deletes_the_model(
    cli: CliSandbox, account: Account, number: signal.Signals
) -> None:
    process = cli.start("transform", *_words(account, "wait\n"), "--name", account.prefix)
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
    assert (_models(account), account.keys("out/")) == ([], [])


@pytest.mark.parametrize(
    "fault", ["quota", "capacity,at=creation", "access-denied,operation=CreateTransformJob"]
)
def test_a_rejected_job_leaves_no_model(cli: CliSandbox, account: Account, fault: str) -> None:
    words = _words(account, "a\n")
    account.emulator.faults(fault)
    done = cli.gpuproof("transform", *words)
    assert done.returncode == 5, done.stderr
    assert _models(account) == []


def test_capacity_that_is_missing_later_fails_the_job(cli: CliSandbox, account: Account) -> None:
    words = _words(account, "a\n")
    account.emulator.faults("capacity")
    done = cli.gpuproof("transform", *words)
    assert done.returncode == 1
    assert "CapacityError" in done.stderr
    assert _models(account) == []


def test_a_dry_run_and_wrong_usage_create_nothing(cli: CliSandbox, account: Account) -> None:
    words = _words(account, "a\n")
    account.emulator.forget_requests()
    done = cli.gpuproof("transform", *words, "--dry-run", "--format", "json")
    assert done.returncode == 0, done.stderr
    calls = json.loads(done.stdout)["calls"]
    assert [call["operation"] for call in calls] == ["create_model", "create_transform_job"]
    assert all(call["undo"] for call in calls)
    for changed, said in (
        (["--input", "data/"], "is not an S3 address"),
        (["--input", f"s3://{account.bucket}/none/"], "There are no objects at"),
        (["--instance-type", "ml.p5.48xlarge"], "no batch transform on ml.p5.48xlarge"),
        (["--records", "one"], "--records is only for --split line"),
        (["--image", "", "--server", "gpuproof"], "--framework pytorch or --framework tensorflow"),
    ):
        done = cli.gpuproof("transform", *words, *changed)
        assert (done.returncode, said in done.stderr) == (2, True), done.stderr
    assert not [name for name in account.emulator.operations() if name.startswith("Create")]


def test_a_folder_is_packed_with_the_server_and_everything_is_deleted(
    cli: CliSandbox, account: Account
) -> None:
    _write_model(cli.project / "digits")
    cli.environment["GPUPROOF_BUCKET"] = account.bucket
    account.put("in/x.csv", "a,b\n")
    words = ("digits", "--image", SERVING_IMAGE, *_places(account), *TYPE)
    done = cli.gpuproof("transform", *words, "--name", account.prefix)
    assert done.returncode == 0, done.stderr
    assert account.get("out/x.csv.out") == "<a,b>"
    assert "upload the model (" in done.stderr
    assert (_models(account), account.keys("gpuproof/endpoints/")) == ([], [])


def test_the_image_and_its_host_image_follow_from_the_model(cli: CliSandbox, account: Account) -> None:
    """PyTorch's inference image has CUDA 12.4, which needs a driver that the older host image has not."""
    _write_model(cli.project / "digits", "import torch\n" + HANDLER)
    cli.environment["GPUPROOF_BUCKET"] = account.bucket
    account.put("in/x.csv", "a\n")
    done = cli.gpuproof("transform", "digits", *_places(account), *TYPE, "--dry-run", "--format", "json")
    assert done.returncode == 0, done.stderr
    upload, model, job = json.loads(done.stdout)["calls"]
    assert upload["operation"] == "upload_file"
    container = model["request"]["PrimaryContainer"]
    assert "pytorch-inference" in container["Image"]
    assert container["ModelDataUrl"] == f"s3://{account.bucket}/{upload['request']['Key']}"
    assert "GPUPROOF_SERVER" in container["Environment"]
    resources = job["request"]["TransformResources"]
    assert resources["TransformAmiVersion"] == "al2-ami-sagemaker-batch-gpu-535"


def test_an_image_with_cuda_13_is_rejected_before_anything_is_created(
    cli: CliSandbox, account: Account
) -> None:
    _write_model(cli.project / "digits", "import torch\n" + HANDLER)
    account.put("in/x.csv", "a\n")
    image = SERVING_IMAGE.replace("2.6.0-cpu-py312", "2.9.0-gpu-py312-cu130")
    words = ("digits", "--image", image, *_places(account), *TYPE, "--dry-run")
    cli.environment["GPUPROOF_BUCKET"] = account.bucket
    done = cli.gpuproof("transform", *words)
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
    done = cli.gpuproof("transform", "here", "--image", SERVING_IMAGE, *_places(account), *TYPE)
    assert done.returncode == 0, done.stderr
    assert account.get("out/x.csv.out") == "<a>"
    assert (_models(account), account.keys("gpuproof/endpoints/")) == ([], [])


def test_a_model_in_s3_with_another_handler_is_packed_again(cli: CliSandbox, account: Account) -> None:
    cli.environment["GPUPROOF_BUCKET"] = account.bucket
    words = _words(account, "a\n")
    handler = cli.project / "inference.py"
    handler.write_text(HANDLER.replace("<%s>", "[%s]"))
    done = cli.gpuproof("transform", *words, "--code", str(handler))
    assert done.returncode == 0, done.stderr
    assert account.get("out/x.csv.out") == "[a]"
    assert len(account.keys(f"{account.prefix}/")) == 1  # the user's own archive
    assert (_models(account), account.keys("gpuproof/endpoints/")) == ([], [])


def test_a_model_whose_data_batch_transform_does_not_support_is_rejected(
    cli: CliSandbox, account: Account
) -> None:
    source = {"S3Uri": _model_data(account), "S3DataType": "S3Object", "CompressionType": "Gzip"}
    account.client("sagemaker").create_model(
        ModelName=account.prefix,
        ExecutionRoleArn=account.emulator.role,
        PrimaryContainer={"Image": SERVING_IMAGE, "ModelDataSource": {"S3DataSource": source}},
    )
    account.put("in/x.csv", "a\n")
    done = cli.gpuproof("transform", account.prefix, *_places(account), *TYPE)
    assert (done.returncode, "does not support ModelDataSource" in done.stderr) == (2, True), done.stderr
    done = cli.gpuproof("transform", account.prefix, *_places(account), *TYPE, "--image", SERVING_IMAGE)
    assert "--image is for a model that is created for the job" in done.stderr
    jobs = account.client("sagemaker").list_transform_jobs(NameContains=account.prefix)
    assert jobs["TransformJobSummaries"] == []


def test_a_second_interrupt_does_not_wait_for_the_end(cli: CliSandbox, account: Account) -> None:
    words = _words(account, "wait\n")
    process = cli.start("transform", *words, "--name", account.prefix)
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
    assert _models(account) == []
    until(lambda: status() == "Stopped", "the end")


def test_a_detached_job_runs_on(cli: CliSandbox, account: Account) -> None:
    done = cli.gpuproof("transform", *_words(account, "a\n"), "--detach")
    assert done.returncode == 0, done.stderr
    name = done.stdout.strip()
    until(lambda: account.keys("out/"), "the result")
    assert _models(account) == [name]
    assert f"delete-model --model-name {name}" in done.stderr


def _words(account: Account, data: str) -> list[str]:
    account.put("in/x.csv", data)
    return [_model_data(account), "--image", SERVING_IMAGE, *_places(account), *TYPE]


def _write_model(folder: Path, handler: str = HANDLER) -> None:
    (folder / "code").mkdir(parents=True)
    (folder / "code" / "inference.py").write_text(handler)


def _model_data(account: Account) -> str:
    return account.put(f"{account.prefix}/model.tar.gz", archive(**{"code/inference.py": HANDLER.encode()}))


def _places(account: Account) -> list[str]:
    return ["--input", f"s3://{account.bucket}/in/", "--output", f"s3://{account.bucket}/out"]


def _models(account: Account) -> list[str]:
    """The models whose data or name is the test's."""
    client = account.client("sagemaker")
    names = [item["ModelName"] for item in client.list_models(MaxResults=100)["Models"]]
    found = [client.describe_model(ModelName=name) for name in names]
    return [
        model["ModelName"]
        for model in found
        if account.bucket in model["PrimaryContainer"].get("ModelDataUrl", "")
    ]
