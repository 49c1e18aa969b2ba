"""`gpuproof run --on sagemaker`: the same job, the same script, another place."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.aws_emulator import RunningEmulator, running_emulator
from support.cli_sandbox import CliSandbox, until

pytestmark = [pytest.mark.journey, pytest.mark.slow]

EXAMPLES = Path(__file__).parents[2] / "examples"
BUCKET = "mine"
SCRIPT = """
import os, pathlib, sys
arguments = sys.argv[1:]
print("arguments", arguments)
print("inputs", sorted(path.name for path in pathlib.Path("/opt/ml/input/data/training").rglob("*.csv")))
print("module", open("helper.txt").read().strip())
pathlib.Path(os.environ["SM_MODEL_DIR"], "model.txt").write_text("trained")
"""
JOB = """
entry_point: train.py
name: same
framework: pytorch
inputs: {training: ./data}
hyperparameters: {epochs: 3, layers: [8, 8], fast: true, name: "5"}
environment: {GREETING: hello, BUILD_LICENSE: s3cret-value}
output: ./out
max_duration: 1h
"""


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningEmulator]:
    # A framework with a thread for each core waits for the other tests most of the time.
    threads = {"OMP_NUM_THREADS": "1"}
    with running_emulator(tmp_path_factory.mktemp("aws"), stop_grace=30.0, environment=threads) as running:
        running.bucket(BUCKET)
        assert running.role
        yield running


@pytest.fixture
def cloud(sandbox: CliSandbox, emulator: RunningEmulator) -> Iterator[CliSandbox]:
    """A sandbox whose AWS is the emulator, with a job that runs in both places."""
    sandbox.environment |= {**emulator.credentials, "GPUPROOF_BUCKET": BUCKET}
    sandbox.write("train.py", SCRIPT)
    sandbox.write("helper.txt", "beside the script\n")
    sandbox.write("data/a.csv", "1\n")
    sandbox.write("data/deep/b.csv", "2\n")
    sandbox.write("gpuproof.yaml", JOB)
    yield sandbox
    emulator.faults()


def on_sagemaker(sandbox: CliSandbox, *words: str) -> subprocess.CompletedProcess[str]:
    return sandbox.gpuproof("run", "--on", "sagemaker", "--instance-type", "ml.m5.xlarge", *words)


def job(emulator: RunningEmulator, run_id: str) -> dict[str, Any]:
    return emulator.client("sagemaker").describe_training_job(TrainingJobName=run_id)


def run_id(stderr: str) -> str:
    """The id of the newest run in the output."""
    return [line.split()[1] for line in stderr.splitlines() if line.startswith("run        ")][-1].rstrip(":")


def keys(emulator: RunningEmulator, prefix: str = "") -> set[str]:
    pages = emulator.client("s3").get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
    return {item["Key"] for page in pages for item in page.get("Contents", ())}


def test_the_same_job_prints_the_same_here_and_on_sagemaker(cloud: CliSandbox) -> None:
    here = cloud.gpuproof("run")
    there = on_sagemaker(cloud)
    assert here.returncode == there.returncode == 0, there.stderr
    assert there.stdout == here.stdout
    assert "no-gpu-expected" in there.stderr
    models = list((cloud.project / "out").rglob("model.tar.gz"))
    assert len(models) == 2


def test_receipts_have_the_same_code_and_inputs_here_and_on_sagemaker(cloud: CliSandbox) -> None:
    cloud.gpuproof("run")
    there = run_id(on_sagemaker(cloud).stderr)
    here = json.loads(cloud.gpuproof("receipt", "--on", "local").stdout)["receipt"]
    receipt = cloud.gpuproof("receipt", there, "--on", "sagemaker").stdout
    remote = json.loads(receipt)["receipt"]
    assert here["code"] == remote["code"]
    assert here["inputs"] == remote["inputs"]
    assert remote["inputs"]["training"]["files"] == 2
    assert remote["machine"]["instance_type"] == "ml.m5.xlarge"
    assert remote["cost"]["billed_seconds"] > 0
    path = cloud.home / "receipt.json"
    path.write_text(receipt)
    verified = cloud.gpuproof("verify", path, "--run", there, "--on", "sagemaker", "--source", ".")
    assert verified.returncode == 0, verified.stdout


def test_the_plan_is_printed_before_anything_is_created(cloud: CliSandbox) -> None:
    done = on_sagemaker(cloud)
    labels = [line.split()[0] for line in done.stderr.splitlines() if line[:1].strip()]
    assert labels[:10] == [
        "run",
        "script",
        "code",
        "image",
        "instance",
        "GPU",
        "input",
        "output",
        "checkpoint",
        "role",
    ]
    assert "time limit 1h" in done.stderr


def test_json_is_the_run_with_its_verdict(cloud: CliSandbox) -> None:
    done = on_sagemaker(cloud, "--format", "json")
    document = json.loads(done.stdout)
    assert (document["exit_code"], document["run"]["backend"]) == (0, "sagemaker")
    assert document["verdict"]["outcome"] == "no-gpu-expected"
    assert "epochs" in done.stderr


def test_a_dry_run_shows_every_call_and_makes_nothing(cloud: CliSandbox, emulator: RunningEmulator) -> None:
    before = keys(emulator)
    emulator.forget_requests()
    done = on_sagemaker(cloud, "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "nothing was created" in done.stderr
    assert "sagemaker create_training_job" in done.stderr
    assert "s3cret-value" not in done.stderr + done.stdout
    assert '"GREETING": "hello"' in done.stderr
    assert keys(emulator) == before
    assert [
        operation for operation in emulator.operations() if operation.startswith(("Create", "Put", "Copy"))
    ] == []


def test_a_dry_run_as_json_holds_the_calls_as_data(cloud: CliSandbox) -> None:
    document = json.loads(on_sagemaker(cloud, "--dry-run", "--format", "json").stdout)
    assert document["version"] == 1
    assert document["calls"][-1]["operation"] == "create_training_job"
    assert document["calls"][-1]["request"]["Environment"] == {"GREETING": "hello", "BUILD_LICENSE": "***"}
    assert document["job"]["hyperparameters"] == {"epochs": 3, "layers": [8, 8], "fast": True, "name": "5"}
    assert document["job"]["environment"] == {}
    assert document["instance_types"][0]["name"] == "ml.m5.xlarge"


def test_a_script_that_fails_leaves_with_one(cloud: CliSandbox, emulator: RunningEmulator) -> None:
    cloud.write("train.py", "raise ValueError('no such column')\n")
    done = on_sagemaker(cloud)
    assert done.returncode == 1
    assert "no such column" in done.stderr + done.stdout
    assert job(emulator, run_id(done.stderr))["TrainingJobStatus"] == "Failed"


def test_a_gpu_that_is_not_used_leaves_with_four(cloud: CliSandbox) -> None:
    done = cloud.gpuproof("run", "--on", "sagemaker", "--instance-type", "ml.g5.xlarge")
    assert done.returncode == 4, done.stderr
    assert "cpu-only" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "sigterm"])
def test_ctrl_c_and_sigterm_stop_the_job_and_wait(
    number: signal.Signals, cloud: CliSandbox, emulator: RunningEmulator
) -> None:
    cloud.write("train.py", "import time\nprint('it is on', flush=True)\ntime.sleep(600)\n")
    process = cloud.start("run", "--on", "sagemaker", "--instance-type", "ml.m5.xlarge")
    assert process.stdout is not None
    assert process.stdout.readline() == "it is on\n"
    process.send_signal(number)
    _, printed = process.communicate(timeout=300)
    assert process.returncode == 130, printed
    assert job(emulator, run_id(printed))["TrainingJobStatus"] == "Stopped"


def test_ctrl_c_while_data_is_sent_leaves_nothing(cloud: CliSandbox, emulator: RunningEmulator) -> None:
    cloud.write("data/new.csv", "never sent before\n")
    before = keys(emulator)
    emulator.faults("slow,operation=PutObject,seconds=10")
    emulator.forget_requests()
    process = cloud.start("run", "--on", "sagemaker", "--instance-type", "ml.m5.xlarge")
    until(lambda: "PutObject" in emulator.operations("s3"), "the sending")
    process.send_signal(signal.SIGINT)
    _, printed = process.communicate(timeout=300)
    assert process.returncode == 130, printed
    assert keys(emulator) == before
    assert "CreateTrainingJob" not in emulator.operations()


def test_a_detached_run_is_looked_after_from_another_machine(cloud: CliSandbox, tmp_path: Path) -> None:
    done = on_sagemaker(cloud, "--detach", "--format", "json")
    document = json.loads(done.stdout)
    assert document["id"] in document["console"]
    project, home = tmp_path / "elsewhere", tmp_path / "their-home"
    project.mkdir()
    home.mkdir()
    other = CliSandbox(home, project, dict(cloud.environment))
    assert other.gpuproof("wait", document["id"]).returncode == 0
    assert "module beside the script" in other.gpuproof("logs", document["id"]).stdout
    assert document["id"] in other.gpuproof("ps").stdout
    assert other.gpuproof("pull", document["id"], "--to", "got").returncode == 0
    assert (project / "got" / "model.tar.gz").is_file()


def test_no_capacity_leads_to_the_fallback(cloud: CliSandbox, emulator: RunningEmulator) -> None:
    emulator.faults("capacity,instance=ml.g5.xlarge")
    done = cloud.gpuproof(
        *("run", "--on", "sagemaker", "--instance-type", "ml.g5.xlarge", "--fallback", "ml.m5.xlarge"),
        "--no-require-gpu",
    )
    assert done.returncode == 0, done.stderr
    assert "AWS has no capacity for ml.g5.xlarge; trying ml.m5.xlarge" in done.stderr
    assert job(emulator, run_id(done.stderr))["ResourceConfig"]["InstanceType"] == "ml.m5.xlarge"


def test_no_quota_exits_with_5_and_the_command_that_requests_more(
    cloud: CliSandbox, emulator: RunningEmulator
) -> None:
    emulator.faults("quota,instance=ml.g5.xlarge")
    done = cloud.gpuproof("run", "--on", "sagemaker", "--instance-type", "ml.g5.xlarge")
    assert done.returncode == 5, done.stderr
    assert "request-service-quota-increase --service-code sagemaker --quota-code L-B6D80D9C" in done.stderr


def test_missing_credentials_exit_with_code_3(cloud: CliSandbox) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        del cloud.environment[name]
    done = on_sagemaker(cloud)
    assert done.returncode == 3, done.stderr


def test_flags_of_this_machine_are_refused_there(cloud: CliSandbox) -> None:
    done = on_sagemaker(cloud, "--python", "python3.9")
    assert done.returncode == 2
    assert "--python" in done.stderr


def test_processing_outputs_come_to_the_folders_that_the_job_names(cloud: CliSandbox) -> None:
    cloud.write(
        "prep.py",
        "import pathlib\n"
        "found = sorted(path.name for path in pathlib.Path('/opt/ml/processing/input/raw').rglob('*.csv'))\n"
        "pathlib.Path('/opt/ml/processing/output/clean/names.txt').write_text(' '.join(found))\n",
    )
    cloud.write(
        "gpuproof.yaml",
        "kind: processing\nentry_point: prep.py\nframework: pytorch\ninputs: {raw: ./data}\n"
        "outputs: {clean: ./clean}\n",
    )
    done = on_sagemaker(cloud)
    assert done.returncode == 0, done.stderr
    assert (cloud.project / "clean" / "names.txt").read_text() == "a.csv b.csv"


def test_the_torch_example_trains_there_unchanged(cloud: CliSandbox) -> None:
    shutil.copytree(EXAMPLES / "pytorch-digits", cloud.project / "pytorch-digits")
    done = on_sagemaker(cloud, "pytorch-digits", "-p", "epochs=8")
    assert done.returncode == 0, done.stderr
    assert cloud.gpuproof("pull", "pytorch-digits", "--to", "pulled").returncode == 0
    checked = subprocess.run(
        [sys.executable, "evaluate.py", cloud.project / "pulled" / "model.tar.gz"],
        cwd=cloud.project / "pytorch-digits",
        capture_output=True,
        text=True,
    )
    assert checked.returncode == 0, checked.stderr
    assert float(checked.stdout.rsplit(" ", 1)[1]) >= 0.95


def test_a_run_on_this_machine_imports_nothing_of_aws(cloud: CliSandbox) -> None:
    asked = (
        "import sys, gpuproof.cli.main as main\n"
        "code = main.main(['run', '--dry-run'])\n"
        "print([name for name in sys.modules if name.startswith(('boto', 'gpuproof.backends.aws.session', 'gpuproof.backends.sagemaker.'))])\n"
        "sys.exit(code)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", asked], cwd=cloud.project, capture_output=True, text=True, check=False
    )
    # The entry of a backend names its flags; everything else, boto3 above all, is imported when it is used.
    assert (done.returncode, done.stdout.strip()) == (0, "['gpuproof.backends.sagemaker.backend']"), (
        done.stderr
    )
