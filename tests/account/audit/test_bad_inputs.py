"""Rows about which little is known: each says what is known, and why the rest is not."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from gpuproof.errors import ExitCode
from support.cli_sandbox import CliSandbox
from support.emulated_account import DAY, EmulatedAccount
from support.published_metrics import ended_training, publish, publish_host

pytestmark = pytest.mark.slow


def audit(cli: CliSandbox, *words: str, code: int = 0) -> dict[str, dict[str, Any]]:
    done = cli.gpuproof("audit", "--region", "us-east-1", *words, "--format", "json")
    assert done.returncode == code, done.stderr
    return {row["name"]: row for row in json.loads(done.stdout)["rows"]}


def test_values_by_the_minute_that_have_expired_are_replaced_by_coarser_ones(
    account: EmulatedAccount, cli: CliSandbox
) -> None:
    for days in (20, 100):
        ago = ended_training(account, f"old-{days}", hours_ago=24 * days, minutes=120)
        publish_host(account, f"old-{days}", [90.0] * 120, ago=ago)
    ended_training(account, "gone", hours_ago=24 * 460)
    rows = audit(cli, "--days", "500")
    assert {name: (row["verdict"], row["resolution_seconds"]) for name, row in rows.items()} == {
        "old-20": ("used", 300),
        "old-100": ("used", 3600),
        "gone": ("not measured", None),
    }
    assert "15 months" in rows["gone"]["reason"]
    assert rows["gone"]["usd"] > 0
    assert "kept for 15 days" in rows["old-20"]["notes"][0]


def test_a_deleted_endpoint_has_its_utilization_and_no_cost(
    account: EmulatedAccount, cli: CliSandbox
) -> None:
    dimensions = {"EndpointName": "chat", "VariantName": "main"}
    metrics = {"GPUUtilization": [0.0] * 60, "GPUMemoryUtilization": [40.0] * 60}
    publish(account, "/aws/sagemaker/Endpoints", dimensions, metrics, ago=5 * 3600)
    row = audit(cli)["chat"]
    assert (row["status"], row["verdict"], row["usd"]) == ("Deleted", "idle", None)
    assert "CloudTrail" in row["notes"][0]


def test_a_deleted_endpoint_from_before_the_time_is_not_listed(
    account: EmulatedAccount, cli: CliSandbox
) -> None:
    dimensions = {"EndpointName": "chat", "VariantName": "main"}
    publish(account, "/aws/sagemaker/Endpoints", dimensions, {"GPUUtilization": [50.0]}, ago=3 * DAY)
    assert audit(cli, "--days", "1") == {}


def test_jobs_that_run_are_judged_by_what_has_arrived(account: EmulatedAccount, cli: CliSandbox) -> None:
    account.job("running", age=3600, SecondaryStatusTransitions=[])
    publish_host(account, "running", [95.0] * 50, ago=3600)
    account.job("new", age=120, SecondaryStatusTransitions=[])
    began = {"Status": "Downloading", "StartTime": time.time() - 60}
    account.job("downloading", age=300, SecondaryStatusTransitions=[began])
    rows = audit(cli, "--days", "1")
    assert all(row["running"] for row in rows.values())
    assert rows["running"]["verdict"] == "used"
    assert rows["running"]["usd"] == pytest.approx(1.408, rel=0.05)
    assert "values arrive some minutes later" in rows["new"]["reason"]
    assert rows["downloading"]["reason"] == "Its program has not started."


def test_a_job_that_began_before_the_time_and_ended_in_it_counts(
    account: EmulatedAccount, cli: CliSandbox
) -> None:
    ago = ended_training(account, "long", hours_ago=50, minutes=48 * 60, LastModifiedTime=time.time() - 7200)
    publish_host(account, "long", [90.0] * 48 * 60, ago=ago)
    ended_training(account, "earlier", hours_ago=50, LastModifiedTime=time.time() - 7200)
    assert {name: row["verdict"] for name, row in audit(cli, "--days", "1").items()} == {"long": "used"}


def test_a_job_of_seconds_says_that_values_are_by_the_minute(
    account: EmulatedAccount, cli: CliSandbox
) -> None:
    now = time.time()
    account.job(
        "short",
        status="Failed",
        age=3600,
        TrainingEndTime=now - 3570,
        BillableTimeInSeconds=30,
        SecondaryStatusTransitions=[],
    )
    assert "one value a minute" in audit(cli)["short"]["reason"]


def test_a_clock_that_is_behind_is_noted(account: EmulatedAccount, cli: CliSandbox) -> None:
    account.job("future", age=-600, SecondaryStatusTransitions=[])
    row = audit(cli)["future"]
    assert "this machine's clock is" in row["notes"][0]
    assert row["usd"] == 0
    assert row["verdict"] == "not measured"


def test_an_unknown_type_with_gpus_is_judged_without_a_price(
    account: EmulatedAccount, cli: CliSandbox
) -> None:
    ago = ended_training(account, "new-type", instance="ml.p99.48xlarge")
    publish_host(account, "new-type", [0.0] * 30, ago=ago, memory=0.0)
    row = audit(cli)["new-type"]
    assert (row["gpus"], row["usd"], row["verdict"]) == (None, None, "cpu-only")


def test_a_stopped_instance_costs_for_the_time_in_which_its_cpu_has_values(
    account: EmulatedAccount, cli: CliSandbox
) -> None:
    instance, unused = account.instance(), account.instance()
    account.client("ec2", "us-east-1").stop_instances(InstanceIds=[instance, unused])
    # Two hours, by 5 minutes.
    for number in range(24):
        publish(
            account,
            "AWS/EC2",
            {"InstanceId": instance},
            {"CPUUtilization": [50.0]},
            ago=10 * 3600 - 300 * number,
        )
    rows = audit(cli, "--days", "1")
    assert set(rows) == {instance}
    assert rows[instance]["instance_hours"] == 2
    assert rows[instance]["usd"] == pytest.approx(2 * 1.006)
    assert rows[instance]["verdict"] == "not measured"
    assert rows[instance]["cpu_cores"] == 2  # of the four of a g5.xlarge


def test_a_terminated_instance_is_known_by_the_metrics_of_its_agent(
    account: EmulatedAccount, cli: CliSandbox
) -> None:
    for name, more in (("i-0typed", {"InstanceType": "g5.xlarge"}), ("i-0untyped", {})):
        agent = {"InstanceId": name, "index": "0", "name": "NVIDIA A10G", "arch": "Ampere", **more}
        publish(account, "CWAgent", agent, {"nvidia_smi_utilization_gpu": [90.0] * 60}, ago=DAY)
        cpu = {"CPUUtilization": [50.0] * 60}
        publish(account, "AWS/EC2", {"InstanceId": name}, cpu, ago=DAY)
    rows = audit(cli, "--days", "2")
    assert {name: (row["status"], row["verdict"]) for name, row in rows.items()} == {
        "i-0typed": ("terminated", "used"),
        "i-0untyped": ("terminated", "used"),
    }
    assert rows["i-0typed"]["usd"] == pytest.approx(1.006, rel=0.1)
    assert rows["i-0untyped"]["usd"] is None


def test_a_run_of_gpuproof_is_called_one(account: EmulatedAccount, cli: CliSandbox) -> None:
    ended_training(account, "bert", tags={"gpuproof:run": "bert-20261101-120000-00aa"})
    assert "`gpuproof show bert-20261101-120000-00aa`" in audit(cli)["bert"]["notes"][0]


def test_instances_that_a_warm_pool_kept_are_billed(account: EmulatedAccount, cli: CliSandbox) -> None:
    pool = {"Status": "Terminated", "ResourceRetainedBillableTimeInSeconds": 1800}
    ended_training(account, "pooled", WarmPoolStatus=pool)
    row = audit(cli)["pooled"]
    assert row["billed_seconds"] == 3600
    assert row["notes"] == ["30 min of it in a warm pool after its end"]


def test_where_cloudwatch_may_not_be_read_the_rows_say_so(account: EmulatedAccount, cli: CliSandbox) -> None:
    ended_training(account, "job")
    account.fault("access-denied,service=monitoring")
    rows = audit(cli, code=ExitCode.AWS_REFUSED)
    assert rows["job"]["reason"] == "CloudWatch could not be read in this region."
    assert rows["job"]["usd"] > 0


def test_throttled_requests_are_repeated(account: EmulatedAccount, cli: CliSandbox) -> None:
    publish_host(account, "busy", [90.0] * 30, ago=ended_training(account, "busy"))
    account.fault("throttling,service=monitoring,count=4")
    account.fault("throttling,service=sagemaker,count=4")
    assert audit(cli)["busy"]["verdict"] == "used"


def test_an_instance_type_without_gpus_in_a_heterogeneous_cluster_is_no_gpu(
    account: EmulatedAccount, cli: CliSandbox
) -> None:
    groups = [
        {"InstanceGroupName": "gpu", "InstanceType": "ml.g5.xlarge", "InstanceCount": 1},
        {"InstanceGroupName": "data", "InstanceType": "ml.m5.large", "InstanceCount": 1},
    ]
    ago = ended_training(account, "mixed", ResourceConfig={"InstanceGroups": groups, "VolumeSizeInGB": 30})
    publish_host(account, "mixed", [90.0] * 30, ago=ago)
    row = audit(cli)["mixed"]
    assert (row["gpus"], row["instance_type"]) == (1, "ml.g5.xlarge + ml.m5.large")
    assert row["verdict"] == "used"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--days", "0"), "0 is not a number of days"),
        (("--since", "2099-01-01"), "is in the future"),
        (("--since", "yesterday"), "yesterday"),
        (("--region", "us-est-1"), "us-east-1"),
    ],
)
def test_wrong_arguments_are_usage_errors(cli: CliSandbox, words: tuple[str, ...], message: str) -> None:
    done = cli.gpuproof("audit", *words)
    assert done.returncode == ExitCode.USAGE
    assert message in done.stderr
