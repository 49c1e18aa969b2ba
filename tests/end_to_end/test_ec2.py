"""`gpuproof run --on ec2` from the command to the verdict, with the emulator's instances, which boot their user data."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.aws_emulator import REGION, RunningEmulator
from support.booting_account import OTHER_REGION, Project, booting_account

pytestmark = pytest.mark.slow

TRAIN = """
import os
print("rows:", open(os.environ["SM_CHANNEL_TRAINING"] + "/rows.csv").read().strip(), flush=True)
print("variable:", os.environ["FLAVOUR"], flush=True)
open(os.path.join(os.environ["SM_MODEL_DIR"], "weights"), "w").write("trained")
"""
JOB = """
name: end-to-end
entry_point: train.py
instance_type: g5.xlarge
inputs: {training: data}
output: results
environment: {FLAVOUR: vanilla}
require_gpu: false
max_duration: 1h
"""


@pytest.fixture(scope="module")
def account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningEmulator]:
    with booting_account(tmp_path_factory.mktemp("account")) as emulator:
        yield emulator


@pytest.fixture
def project(account: RunningEmulator, tmp_path: Path) -> Iterator[Project]:
    made = Project(account, tmp_path / "project")
    yield made
    account.faults()
    made.assert_only_runs_are_left()


def test_a_job_runs_from_the_command_to_the_verdict(project: Project, tmp_path: Path) -> None:
    project.write(TRAIN, JOB)
    printed = project.run("run", "--on", "ec2", "--no-check")
    assert "rows: 1,2,3\n" in printed
    assert "variable: vanilla\n" in printed
    assert "Completed" in printed
    (archive,) = (project.folder / "results").glob("*/output/model.tar.gz")
    assert archive.stat().st_size > 0
    listed = json.loads(project.run("ps", "--on", "ec2", "--format", "json"))["runs"]
    assert [(entry["status"], entry["exit_code"]) for entry in listed] == [("Completed", 0)]
    run_id = listed[0]["id"]
    assert project.run("logs", run_id).startswith("rows: 1,2,3\n")
    assert "Completed" in project.run("show", run_id)
    project.run("receipt", run_id, "-o", str(tmp_path / "receipt.json"))
    receipt = json.loads((tmp_path / "receipt.json").read_text())["receipt"]
    assert receipt["code"]["files"] == 2
    assert receipt["inputs"]["training"]["files"] == 1
    assert receipt["verdict"]["gpus_expected"] == 1
    project.run("pull", run_id, "--to", str(tmp_path / "pulled"), "-x")
    assert (tmp_path / "pulled" / "model" / "weights").read_text() == "trained"
    project.wait_until_terminated()
    project.run("rm", run_id)
    assert "There are no runs" in project.run("ps", "--on", "ec2")


def test_a_script_that_fails_ends_with_its_exception(project: Project) -> None:
    project.write("raise ValueError('no rows')\n", JOB)
    printed = project.run("run", "--on", "ec2", "--no-check", code=1)
    assert "ValueError: no rows" in printed


def test_a_topic_hears_from_the_instance_of_a_script_that_fails(
    account: RunningEmulator, tmp_path: Path
) -> None:
    sns, sqs = account.client("sns"), account.client("sqs")
    topic = sns.create_topic(Name="runs")["TopicArn"]
    queue = sqs.create_queue(QueueName="runs")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn)
    # The instance has a network of its own, in which nothing listens here.
    project = Project(account, tmp_path / "project", {"CHAT_WEBHOOK": "http://127.0.0.1:9/s3cret-value"})
    project.write("import os\nraise ValueError([name for name in os.environ if 'WEBHOOK' in name])\n", JOB)
    notify = ("--notify-topic", topic, "--notify-webhook", "CHAT_WEBHOOK")
    printed = project.run("run", "--on", "ec2", "--no-check", *notify, code=1)
    (received,) = sqs.receive_message(QueueUrl=queue)["Messages"]
    message = json.loads(json.loads(received["Body"])["Message"])
    assert message["event"] == "failed"
    assert "ValueError: []" in message["reason"]
    assert "notification by webhook: the server could not be reached: Connection refused" in printed
    assert "s3cret-value" not in printed
    project.wait_until_terminated()


def test_a_job_runs_in_another_region_than_its_files(project: Project, tmp_path: Path) -> None:
    project.account.faults(f"capacity,service=ec2,region={REGION}")
    project.write(TRAIN, JOB)
    printed = project.run("run", "--on", "ec2", "--no-check", "--regions", OTHER_REGION)
    assert f"g5.xlarge in {REGION}a: InsufficientInstanceCapacity" in printed
    assert "rows: 1,2,3\n" in printed
    assert "Completed" in printed
    assert project.instances("running") == []
    project.wait_until_terminated(OTHER_REGION)
    (archive,) = (project.folder / "results").glob("*/output/model.tar.gz")
    assert archive.stat().st_size > 0
    listed = json.loads(project.run("ps", "--on", "ec2", "--format", "json"))["runs"]
    (run,) = [entry for entry in listed if entry["region"] == OTHER_REGION]
    assert (run["status"], run["exit_code"]) == ("Completed", 0)
    run_id = run["id"]
    assert project.run("logs", run_id).startswith("rows: 1,2,3\n")
    assert "Completed" in project.run("show", run_id)
    project.run("pull", run_id, "--to", str(tmp_path / "pulled"), "-x")
    assert (tmp_path / "pulled" / "model" / "weights").read_text() == "trained"
    project.run("rm", run_id)
    keys = project.keys()
    assert not [key for key in keys if run_id in key], keys


def test_a_job_in_another_region_is_stopped(project: Project) -> None:
    project.account.faults(f"capacity,service=ec2,region={REGION}")
    project.write("print('waiting', flush=True)\nimport time\ntime.sleep(600)\n", JOB)
    printed = project.run(
        "run", "--on", "ec2", "--no-check", "--regions", OTHER_REGION, "--detach", "--format", "json"
    )
    run_id = json.loads(printed[printed.index("{") :])["id"]
    project.wait_for(lambda: "waiting" in project.run("logs", run_id))
    listed = json.loads(project.run("ps", "--on", "ec2", "--format", "json"))["runs"]
    assert [entry["status"] for entry in listed if entry["id"] == run_id] == ["InProgress"]
    project.run("stop", run_id)
    assert "Stopped" in project.run("wait", run_id, code=1)
    project.wait_until_terminated(OTHER_REGION)
    project.run("rm", run_id)


@pytest.mark.nightly
def test_the_output_is_in_s3_where_cloudwatch_logs_is_not_permitted(project: Project, tmp_path: Path) -> None:
    project.account.faults("access-denied,service=logs,operation=CreateLogStream")
    project.write("print('first', flush=True)\nimport sys\nsys.stdout.write('last')\n", JOB)
    printed = project.run("run", "--on", "ec2", "--no-check")
    assert "first\nlast\n" in printed
    run_id = json.loads(project.run("ps", "--on", "ec2", "--format", "json"))["runs"][0]["id"]
    assert project.run("logs", run_id) == "first\nlast\n"
    assert "CloudWatch Logs does not have all of the output" in project.run("show", run_id)
    project.run("pull", run_id, "--to", str(tmp_path / "pulled"))
    assert (tmp_path / "pulled" / "algo-1.log").read_text() == "first\nlast\n"


def test_the_output_in_s3_is_followed_while_the_job_runs(project: Project) -> None:
    project.account.faults("access-denied,service=logs,operation=CreateLogStream")
    project.write("print('waiting', flush=True)\nimport time\ntime.sleep(3600)\n", JOB)
    project.run("run", "--on", "ec2", "--no-check", "--detach")
    run_id = json.loads(project.run("ps", "--on", "ec2", "--format", "json"))["runs"][0]["id"]
    project.wait_for(lambda: project.logs(run_id) == "waiting\n")
    project.run("stop", run_id)
    project.run("wait", run_id, code=1)


def test_a_job_runs_in_a_container_image(project: Project, tmp_path: Path) -> None:
    image = (
        "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.9.0-gpu-py312-cu130-ubuntu22.04-ec2"
    )
    project.write(TRAIN, f"{JOB}image: {image}\n")
    printed = project.run("run", "--on", "ec2", "--no-check")
    assert f"container  {image}" in printed
    assert "rows: 1,2,3\n" in printed
    assert "Completed" in printed
    (archive,) = (project.folder / "results").glob("*/output/model.tar.gz")
    assert archive.stat().st_size > 0
    project.run("receipt", "end-to-end", "--on", "ec2", "-o", str(tmp_path / "receipt.json"))
    receipt = json.loads((tmp_path / "receipt.json").read_text())["receipt"]
    digest = hashlib.sha256(image.encode()).hexdigest()  # as the emulator's Docker reports it
    assert receipt["image"] == {"uri": image, "sha256": digest}
    project.wait_until_terminated()
