"""How runs on EC2 end when something happens to them: each on instances of the emulator, which boot the actual user data.

After each, nothing runs in the account, and it has only the files of runs that are listed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.aws_emulator import ACCOUNT, REGION, RunningEmulator
from support.booting_account import Project, booting_account
from support.doc_blocks import blocks_of

pytestmark = pytest.mark.slow

_PATIENCE_S = 600.0
BUCKET = f"gpuproof-{ACCOUNT}-{REGION}"
JOB = """
name: ending
entry_point: train.py
framework: pytorch
instance_type: g5.xlarge
require_gpu: false
max_duration: 1h
"""
WAITING = """
import time
print("waiting", flush=True)
time.sleep(3600)
"""
# Goes on when the bucket has an object of that name.
UNTIL_GO = f"""
import os, subprocess, time
print("waiting", flush=True)
while subprocess.call(["aws", "s3", "ls", "s3://{BUCKET}/go"], stdout=subprocess.DEVNULL):
    time.sleep(0.5)
open(os.path.join(os.environ["SM_MODEL_DIR"], "weights"), "w").write("trained")
print("went on", flush=True)
"""
STEPS = """
import pathlib, signal, sys, time
kept = pathlib.Path("/opt/ml/checkpoints/step.txt")
start = step = int(kept.read_text()) if kept.exists() else 0
print("from step", start, flush=True)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
while step < 6:
    step += 1
    kept.write_text(str(step))
    print("step", step, flush=True)
    if step == 3 and start == 0:
        time.sleep(3600)  # the middle of an epoch
"""


@pytest.fixture(scope="module")
def account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningEmulator]:
    with booting_account(tmp_path_factory.mktemp("account")) as emulator:
        yield emulator


@pytest.fixture
def project(account: RunningEmulator, tmp_path: Path) -> Iterator[Project]:
    made = Project(account, tmp_path / "laptop" / "project")
    yield made
    made.assert_only_runs_are_left()


def started(project: Project, output: Path, *words: str) -> tuple[subprocess.Popen[bytes], str]:
    """Start a run that is followed, and wait for its id."""
    client = project.start("run", "--on", "ec2", "--no-check", *words, output=output)
    project.wait_for(
        lambda: client.poll() is not None or re.search(r"^run +ending-", output.read_text(), re.M) is not None
    )
    found = re.search(r"^run +(ending-\S+)", output.read_text(), re.MULTILINE)
    assert found is not None, output.read_text()
    return client, found[1]


def statuses(project: Project) -> dict[str, str]:
    runs = json.loads(project.run("ps", "--on", "ec2", "--format", "json"))["runs"]
    return {run["id"]: run["status"] for run in runs}


def interrupt_spot(account: RunningEmulator, instance: str) -> None:
    """Interrupt a spot instance with the command of docs/emulator-reference.md; without `curl`, with the same request."""
    if shutil.which("curl") is None:
        account.interrupt_spot(instance, 120.0)
        return
    (block,) = [one for one in blocks_of("docs/emulator-reference.md") if "/spot-interruption" in one.text]
    command = block.text.replace("i-0123456789abcdef0", instance)
    assert command != block.text
    # Without variables of a proxy.
    environment = {"PATH": os.environ["PATH"], **account.credentials}
    done = subprocess.run(["bash", "-c", command], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_job_ends_by_itself_when_the_laptop_is_gone(project: Project, tmp_path: Path) -> None:
    project.write(UNTIL_GO, JOB)
    client, run = started(project, tmp_path / "output")
    project.wait_for(lambda: "waiting" in project.logs(run))
    client.kill()
    client.wait(_PATIENCE_S)
    # Another computer: with nothing but the credentials.
    other = Project(project.account, tmp_path / "desktop" / "project", own_cache=True)
    assert statuses(other)[run] == "InProgress"
    assert f"{run} (training, ec2)" in other.run("show", run)
    project.account.client("s3").put_object(Bucket=BUCKET, Key="go")
    assert "Completed" in other.run("wait", run)
    assert other.run("logs", run) == "waiting\nwent on\n"
    other.run("pull", run, "--to", str(tmp_path / "pulled"), "-x")
    assert (tmp_path / "pulled" / "model" / "weights").read_text() == "trained"
    project.wait_until_terminated()
    project.account.client("s3").delete_object(Bucket=BUCKET, Key="go")
    other.run("rm", run)
    left = project.keys()
    assert not [key for key in left if run in key]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_the_command_stops_the_job_on_the_instance(
    project: Project, tmp_path: Path, number: signal.Signals
) -> None:
    project.write(WAITING, JOB)
    output = tmp_path / "output"
    client, run = started(project, output)
    project.wait_for(lambda: "waiting" in output.read_text())
    client.send_signal(number)
    assert client.wait(_PATIENCE_S) == 130, output.read_text()
    assert statuses(project)[run] == "Stopped"


def test_a_signal_while_the_instance_boots_stops_the_job(project: Project, tmp_path: Path) -> None:
    project.write(WAITING, JOB)
    output = tmp_path / "output"
    client, run = started(project, output)
    project.wait_for(lambda: "Starting" in output.read_text())
    client.send_signal(signal.SIGINT)
    assert client.wait(_PATIENCE_S) == 130, output.read_text()
    assert statuses(project)[run] == "Stopped"


def test_a_job_goes_on_from_its_checkpoints_after_a_spot_notice(project: Project, tmp_path: Path) -> None:
    project.write(STEPS, JOB)
    output = tmp_path / "output"
    client, first = started(project, output, "--spot", "--retry-spot", "1", "--fresh")
    project.wait_for(lambda: "step 3" in output.read_text())
    (instance,) = project.instances("running")
    interrupt_spot(project.account, instance)
    assert client.wait(_PATIENCE_S) == 0, f"{output.read_text()}\n{project.consoles()}"
    printed = output.read_text()
    assert "starting again from its checkpoints (retry 1 of 1)" in printed
    assert "from step 3\nstep 4\nstep 5\nstep 6\n" in printed
    assert re.search(r"^spot +1 interruption, ", printed, re.MULTILINE), printed
    (second,) = {run for run, status in statuses(project).items() if status == "Completed" and run != first}
    shown = json.loads(project.run("show", second, "--format", "json"))["run"]
    assert (shown["earlier_runs"], shown["attempt"], shown["interruptions"]) == ([first], 2, 1)


def test_a_followed_run_ends_an_instance_that_gives_no_sign_of_life(
    account: RunningEmulator, tmp_path: Path
) -> None:
    project = Project(account, tmp_path / "project", {"GPUPROOF_FIRST_REPORT_SECONDS": "5"})
    project.write(WAITING, JOB)
    account.faults(
        "access-denied,service=s3,operation=PutObject,name=*/hosts/*",
        "access-denied,service=logs,operation=CreateLogStream",
    )
    try:
        printed = project.run("run", "--on", "ec2", "--no-check", code=1)
    finally:
        account.faults()
    assert "has reported nothing in" in printed
    assert "gpuproof explain ending-" in printed
    assert re.search(r"ending-\S+: Failed\n.*it had reported nothing in [0-9.]+ s", printed)
    project.wait_until_terminated()
    (run,) = [name for name in statuses(project) if name in printed]
    assert "NoSignOfLife" in project.run("show", run, "--format", "json")
