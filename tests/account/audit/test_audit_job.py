"""`gpuproof audit JOB` against an emulated account, over HTTP: utilization, log, code and a smaller instance."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from support.archives import archive
from support.cli_sandbox import CliSandbox
from support.emulated_account import EmulatedAccount
from support.published_metrics import ended_training, publish, publish_host

pytestmark = pytest.mark.slow

ONE = ("--region", "us-east-1")
ON_THE_CPU = """
import torch
from torch.utils.data import DataLoader

model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in DataLoader(torch.rand(100, 4), batch_size=8):
    loss = model(batch).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
torch.save(model.state_dict(), "/opt/ml/model/model.pt")
"""
OUT_OF_MEMORY = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 21.99 GiB"


def detail(cli: CliSandbox, name: str, *words: str, code: int = 0) -> dict[str, Any]:
    done = cli.gpuproof("audit", name, *words, "--format", "json")
    assert done.returncode == code, done.stderr
    (job,) = json.loads(done.stdout)["jobs"]
    return job


def test_a_job_that_the_sdk_started_is_shown_with_its_utilization_log_and_code(
    account: EmulatedAccount, cli: CliSandbox
) -> None:
    source = _source(account, {"train.py": ON_THE_CPU})
    parameters = {"sagemaker_submit_directory": json.dumps(source), "sagemaker_program": '"train.py"'}
    ago = ended_training(account, "cpu", HyperParameters=parameters)
    publish_host(account, "cpu", [0.0] * 30, ago=ago, memory=0.0)
    _write_log(
        account, "cpu", "epoch 1", "UserWarning: CUDA initialization: Found no NVIDIA driver on your system."
    )
    found = detail(cli, "cpu", *ONE)
    assert found["verdict"] == "cpu-only"
    assert found["wasted_usd"] == found["usd"] > 0
    (host,) = found["utilization"]
    assert [value for _, value in host["gpu"]] == [0] * 30
    assert host["cpu"][0][1] == 400
    assert found["code"]["location"] == source
    assert found["code"]["program"] == "train.py"
    (finding,) = found["code"]["findings"]
    assert (finding["code"], finding["location"]["file"]) == ("PT101", "train.py")
    assert found["log"]["explanations"], found["log"]
    text = cli.gpuproof("audit", "cpu", *ONE).stdout
    assert "training-job cpu in us-east-1: Completed, ml.g5.xlarge (1 x A10G)" in text
    assert "cpu-only: No program opened the GPU" in text
    assert "train.py:10: PT101 error" in text
    assert account.changes() == []


def test_the_reason_of_a_failure_is_explained_from_the_log(account: EmulatedAccount, cli: CliSandbox) -> None:
    ago = ended_training(account, "full")
    publish_host(account, "full", [80.0] * 30, ago=ago)
    _write_log(account, "full", "Traceback (most recent call last):", OUT_OF_MEMORY)
    explanations = detail(cli, "full", *ONE)["log"]["explanations"]
    assert explanations[0]["code"] == "torch-out-of-memory"


def test_a_job_whose_other_gpus_did_nothing_would_have_done_with_one(
    account: EmulatedAccount, cli: CliSandbox
) -> None:
    ago = ended_training(account, "one", instance="ml.g5.12xlarge")
    publish_host(account, "one", [95.0] * 30, ago=ago, memory=60.0, cores=2.0)
    host = {"Host": "one/algo-1"}
    publish(account, "/aws/sagemaker/TrainingJobs", host, {"MemoryUtilization": [5.0] * 30}, ago=ago)
    found = detail(cli, "one", *ONE)
    assert found["verdict"] == "partly used"
    assert found["smaller"]["instance_type"] == "ml.g5.xlarge"
    assert found["smaller"]["usd_less_per_hour"] > 4
    assert not found["smaller"]["is_estimate"]
    assert "would do" in cli.gpuproof("audit", "one", *ONE).stdout


def test_an_ec2_instance_is_found_by_its_id_and_an_endpoint_by_its_arn(
    account: EmulatedAccount, cli: CliSandbox
) -> None:
    instance = account.instance()
    found = detail(cli, instance, *ONE)
    assert (found["kind"], found["verdict"], found["log"]) == ("instance", "not measured", None)
    account.endpoint("chat", age=86_400.0)
    dimensions = {"EndpointName": "chat", "VariantName": "main"}
    publish(account, "/aws/sagemaker/Endpoints", dimensions, {"GPUUtilization": [70.0] * 60}, ago=7200.0)
    arn = "arn:aws:sagemaker:us-east-1:123456789012:endpoint/chat"
    found = detail(cli, arn)
    assert (found["kind"], found["variant"]) == ("endpoint", "main")
    assert {value for _, value in found["utilization"][0]["gpu"]} == {70}


def test_what_does_not_exist_and_flags_of_accounts_are_usage_errors(
    account: EmulatedAccount, cli: CliSandbox
) -> None:
    done = cli.gpuproof("audit", "nothing", *ONE)
    assert done.returncode == 2
    assert "No job, endpoint or EC2 instance is named nothing." in done.stderr
    done = cli.gpuproof("audit", "one", "--by", "user")
    assert done.returncode == 2
    assert "--by is for all jobs" in done.stderr


def test_what_cannot_be_read_is_named_and_the_rest_is_shown(
    account: EmulatedAccount, cli: CliSandbox
) -> None:
    parameters = {"sagemaker_submit_directory": json.dumps("s3://gone/sourcedir.tar.gz")}
    ago = ended_training(account, "old", HyperParameters=parameters)
    publish_host(account, "old", [90.0] * 30, ago=ago)
    found = detail(cli, "old", *ONE)
    assert found["verdict"] == "used"
    assert found["code"]["findings"] is None
    assert "s3://gone" in found["code"]["problem"]
    assert "There is no log" in found["log_problem"]


def _source(account: EmulatedAccount, files: dict[str, str]) -> str:
    s3 = account.client("s3", "us-east-1")
    s3.create_bucket(Bucket="code")
    content = archive(**{name: text.encode() for name, text in files.items()})
    s3.put_object(Bucket="code", Key="job/source/sourcedir.tar.gz", Body=content)
    return "s3://code/job/source/sourcedir.tar.gz"


def _write_log(account: EmulatedAccount, job: str, *lines: str) -> None:
    logs, group, stream = (
        account.client("logs", "us-east-1"),
        "/aws/sagemaker/TrainingJobs",
        f"{job}/algo-1-1",
    )
    logs.create_log_group(logGroupName=group)
    logs.create_log_stream(logGroupName=group, logStreamName=stream)
    now = int(time.time() * 1000) - 60_000
    events = [{"timestamp": now + number, "message": line} for number, line in enumerate(lines)]
    logs.put_log_events(logGroupName=group, logStreamName=stream, logEvents=events)
