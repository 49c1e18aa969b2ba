"""`gpuproof cleanup` against an emulated account, over HTTP: what is listed, and what exists afterwards."""

from __future__ import annotations

import json
import subprocess
import time
from typing import Any

import pytest

from support.cli_sandbox import CliSandbox
from support.emulated_account import DAY, OWN, EmulatedAccount

pytestmark = pytest.mark.slow

REGIONS = [f"--region={name}" for name in ("us-east-1", "eu-west-1")]


def listed(cli: CliSandbox, *words: str, code: int | None = None) -> dict[str, Any]:
    done = cli.gpuproof("cleanup", *words, "--format", "json")
    assert done.stdout, done.stderr
    assert code is None or done.returncode == code, done.stderr
    return json.loads(done.stdout)


def by_key(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {resource["key"]: resource for resource in document["resources"]}


def test_an_empty_account_costs_nothing(cli: CliSandbox) -> None:
    done = cli.gpuproof("cleanup")
    assert "GPU resources that you are billed for" in done.stdout
    assert listed(cli)["total"]["usd_per_day"] == 0


def test_each_kind_is_listed_with_its_cost(account: EmulatedAccount, cli: CliSandbox) -> None:
    account.endpoint("chat", count=2, tags={"owner": "ann"})
    account.job("train")
    account.job("process", kind="processing-job")
    app = account.app("ann-space")
    instance, volume = account.instance(), account.volume()
    found = by_key(listed(cli))
    assert found["us-east-1/endpoint/chat"]["usd_per_hour"] == pytest.approx(2 * 1.408)
    assert found["us-east-1/endpoint/chat"]["owner"] == "ann"
    assert found["us-east-1/training-job/train"]["usd_per_day"] == pytest.approx(24 * 1.408)
    assert found["us-east-1/processing-job/process"]["age_seconds"] == pytest.approx(3600, abs=600)
    assert found[f"us-east-1/studio-app/{app}"]["usd_per_hour"] > 1
    assert found[f"us-east-1/instance/{instance}"]["usd_per_hour"] == pytest.approx(1.006)
    assert found[f"us-east-1/volume/{volume}"]["usd_per_day"] == pytest.approx(
        24 * 100 * 0.08 / 730, abs=1e-3
    )
    total = listed(cli)["total"]
    assert (total["unknown_prices"], total["is_derived"]) == (0, False)
    assert total["usd_per_hour"] == pytest.approx(
        sum(match["usd_per_hour"] for match in found.values()), abs=1e-3
    )


def test_idle_times_come_from_invocations(account: EmulatedAccount, cli: CliSandbox) -> None:
    for name in ("busy", "unused", "young"):
        account.endpoint(name, age=3600.0 if name == "young" else 30 * DAY)
    account.invoked("busy", 5 * 3600)
    found = by_key(listed(cli))
    # CloudWatch counts by the hour.
    assert 3.9 * 3600 <= found["us-east-1/endpoint/busy"]["idle_seconds"] <= 5.1 * 3600
    assert not found["us-east-1/endpoint/busy"]["idle_since_start"]
    assert found["us-east-1/endpoint/unused"]["idle_seconds"] == pytest.approx(14 * DAY)
    assert found["us-east-1/endpoint/young"]["idle_seconds"] == pytest.approx(3600, abs=600)
    assert found["us-east-1/endpoint/young"]["idle_since_start"]


def test_what_has_no_gpu_is_listed_with_all(account: EmulatedAccount, cli: CliSandbox) -> None:
    account.endpoint("cpu", instance="ml.m5.large")
    account.client("sagemaker", "us-east-1").create_model(
        ModelName="old", PrimaryContainer={"Image": "123456789012.dkr.ecr.us-east-1.amazonaws.com/a:1"}
    )
    assert listed(cli)["resources"] == []
    assert listed(cli)["not_listed"] == {"endpoint": 1, "model": 1}
    found = by_key(listed(cli, "--all"))
    assert sorted(found) == ["us-east-1/endpoint/cpu", "us-east-1/model/old"]
    assert found["us-east-1/model/old"]["note"] == "no endpoint uses it"


def test_all_regions_are_those_of_the_account(account: EmulatedAccount, cli: CliSandbox) -> None:
    account.endpoint("here")
    account.endpoint("there", "eu-west-1")
    document = listed(cli, "--all-regions")
    assert {"us-east-1", "eu-west-1"} <= set(document["regions"])
    enabled = account.client("ec2", "us-east-1").describe_regions(AllRegions=False)["Regions"]
    assert len(document["regions"]) == len(enabled)
    assert sorted(by_key(document)) == ["eu-west-1/endpoint/there", "us-east-1/endpoint/here"]


def test_listing_changes_nothing(account: EmulatedAccount, cli: CliSandbox) -> None:
    account.endpoint("chat", tags=OWN)
    account.job("train", tags={"gpuproof:run": "train"})
    before = account.state()
    cli.gpuproof("cleanup")
    cli.gpuproof("cleanup", "--gpuproof", "--older-than", "1m")
    assert account.state() == before
    assert account.changes() == []


def test_a_named_endpoint_is_deleted_and_nothing_else(account: EmulatedAccount, cli: CliSandbox) -> None:
    account.endpoint("chat")
    account.endpoint("other")
    before = account.state()
    done = cli.gpuproof("cleanup", "chat", "--delete", "--yes")
    assert "endpoint/chat in us-east-1: delete: done" in done.stdout
    # It has no tags of GPUproof: its model and configuration are kept.
    assert account.state() == {
        key: value for key, value in before.items() if key != "us-east-1/endpoint/chat"
    }
    assert account.changes() == ["DeleteEndpoint"]


def test_a_dry_run_names_what_would_be_deleted(account: EmulatedAccount, cli: CliSandbox) -> None:
    account.endpoint("chat", tags=OWN)
    account.endpoint("theirs")
    before = account.state()
    done = cli.gpuproof("cleanup", "--gpuproof", "--delete", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "would be deleted: us-east-1/endpoint/chat" in done.stdout
    assert "would be deleted: us-east-1/endpoint/theirs" not in done.stdout
    document = listed(cli, "chat", "--dry-run")
    assert "chat" in json.dumps(document["selected"])
    assert account.state() == before


def test_gpuproofs_endpoint_goes_with_its_configuration_and_model(
    account: EmulatedAccount, cli: CliSandbox
) -> None:
    account.endpoint("mine", tags=OWN)
    account.endpoint("theirs")
    account.job("running", tags={"gpuproof:run": "running"})
    before = account.state()
    done = cli.gpuproof("cleanup", "--gpuproof", "--delete", "--yes")
    assert "running and ends by itself" in done.stdout
    gone = {
        f"us-east-1/{kind}/mine{end}"
        for kind, end in (("endpoint", ""), ("endpoint-config", "-config"), ("model", "-model"))
    }
    assert set(before) - set(account.state()) == gone


def test_a_shared_configuration_is_kept(account: EmulatedAccount, cli: CliSandbox) -> None:
    account.endpoint("one", tags=OWN)
    account.endpoint("two", tags={"team": "x"}, config="one-config")
    cli.gpuproof("cleanup", "one", "--delete", "--yes")
    left = account.state()
    assert "us-east-1/endpoint/one" not in left
    assert {
        "us-east-1/endpoint/two",
        "us-east-1/endpoint-config/one-config",
        "us-east-1/model/one-model",
    } <= set(left)


def test_only_idle_endpoints_are_deleted(account: EmulatedAccount, cli: CliSandbox) -> None:
    account.endpoint("busy")
    account.endpoint("idle")
    account.endpoint("young", age=DAY)
    account.invoked("busy", 3600)
    cli.gpuproof("cleanup", "--idle-for", "7d", "--delete", "--yes")
    endpoints = {key for key in account.state() if "/endpoint/" in key}
    assert endpoints == {"us-east-1/endpoint/busy", "us-east-1/endpoint/young"}


def test_filters_never_select_what_holds_data(account: EmulatedAccount, cli: CliSandbox) -> None:
    volume, instance = account.volume(), account.instance()
    before = account.state()
    done = cli.gpuproof("cleanup", "--older-than", "0s", "--delete", "--yes")
    assert "it holds data" in done.stdout
    assert account.state() == before
    cli.gpuproof("cleanup", volume, "--delete", "--yes")
    assert f"us-east-1/volume/{volume}" not in account.state()
    cli.gpuproof("cleanup", instance, "--delete", "--yes")
    # It is not GPUproof's: it is stopped, not terminated.
    assert account.state()[f"us-east-1/instance/{instance}"] in ("stopping", "stopped")


def test_the_instance_of_a_run_is_terminated(account: EmulatedAccount, cli: CliSandbox) -> None:
    mine, other = account.instance(tags={"gpuproof:run": "r"}), account.instance()
    cli.gpuproof("cleanup", mine, "--delete", "--yes")
    state = account.state()
    assert state[f"us-east-1/instance/{mine}"] in ("shutting-down", "terminated")
    assert state[f"us-east-1/instance/{other}"] == "running"


def test_an_app_is_deleted(account: EmulatedAccount, cli: CliSandbox) -> None:
    app, other = account.app("ann"), account.app("bob")
    cli.gpuproof("cleanup", app, "--delete", "--yes")
    state = account.state()
    assert f"us-east-1/app/{app}" not in state
    assert f"us-east-1/app/{other}" in state


def test_a_warm_pool_is_released(account: EmulatedAccount, cli: CliSandbox) -> None:
    resources = {"InstanceType": "ml.g5.xlarge", "InstanceCount": 1, "KeepAlivePeriodInSeconds": 3600}
    ended = {"ResourceConfig": resources, "TrainingEndTime": time.time() - 60}
    account.job("pooled", status="Completed", **ended)
    found = by_key(listed(cli))
    assert found["us-east-1/warm-pool/pooled"]["usd_per_hour"] == pytest.approx(1.408)
    cli.gpuproof("cleanup", "pooled", "--delete", "--yes")
    job = account.client("sagemaker", "us-east-1").describe_training_job(TrainingJobName="pooled")
    assert job["WarmPoolStatus"]["Status"] == "Terminated"
    assert listed(cli)["resources"] == []


def test_a_schedule_without_its_endpoint_is_left_over(account: EmulatedAccount, cli: CliSandbox) -> None:
    account.endpoint("alive", tags=OWN)
    for endpoint in ("alive", "lost"):
        account.schedule(f"gpuproof-ttl-{endpoint}", endpoint)
    found = by_key(listed(cli))
    assert found["us-east-1/schedule/gpuproof-ttl-lost"]["note"] == "its endpoint lost does not exist"
    assert "us-east-1/schedule/gpuproof-ttl-alive" not in found
    assert "schedule" in found["us-east-1/endpoint/alive"]["what_happens"]
    cli.gpuproof("cleanup", "--gpuproof", "--delete", "--yes")
    assert not any("/schedule/" in key for key in account.state())


def test_files_of_a_run_that_was_never_submitted_are_left_over(
    account: EmulatedAccount, cli: CliSandbox
) -> None:
    bucket = "gpuproof-123456789012-us-east-1"
    s3 = account.client("s3", "us-east-1")
    s3.create_bucket(Bucket=bucket)
    for key in ("gpuproof/runs/young/code/job.json", "gpuproof/checkpoints/j/r/x"):
        s3.put_object(Bucket=bucket, Key=key, Body=b"x")
    # They were written just now: a run may be being submitted.
    assert listed(cli)["resources"] == []


@pytest.mark.parametrize(
    ("service", "operation", "permission"),
    [
        ("sagemaker", "ListApps", "sagemaker:ListApps"),
        ("sagemaker", "ListTrainingJobs", "sagemaker:ListTrainingJobs"),
        ("ec2", "DescribeInstances", "ec2:DescribeInstances"),
        ("tagging", "GetResources", "tag:GetResources"),
        ("monitoring", "GetMetricData", "cloudwatch:GetMetricData"),
        ("s3", "HeadBucket", "s3:ListBucket"),
        ("scheduler", "ListSchedules", "scheduler:ListSchedules"),
    ],
)
def test_a_missing_permission_is_named_and_the_rest_is_listed(
    account: EmulatedAccount, cli: CliSandbox, service: str, operation: str, permission: str
) -> None:
    account.endpoint("chat", tags=OWN)
    account.fault(f"access-denied,service={service},operation={operation},region=us-east-1")
    done = cli.gpuproof("cleanup", *REGIONS)
    assert done.returncode == 5
    assert f"in us-east-1: no permission for {permission}" in done.stderr
    assert "eu-west-1: no permission" not in done.stderr
    assert "chat" in done.stdout
    document = listed(cli, *REGIONS, code=5)
    assert {problem["permission"] for problem in document["problems"] if problem["permission"]} == {
        permission
    }


def test_without_tags_nothing_counts_as_gpuproofs(account: EmulatedAccount, cli: CliSandbox) -> None:
    account.endpoint("chat", tags=OWN)
    account.fault("access-denied,service=tagging")
    before = account.state()
    done = cli.gpuproof("cleanup", "--gpuproof", "--delete", "--yes")
    assert "Nothing is selected" in done.stdout
    assert account.state() == before


def test_without_metrics_nothing_counts_as_idle(account: EmulatedAccount, cli: CliSandbox) -> None:
    account.endpoint("chat")
    account.fault("access-denied,service=monitoring")
    before = account.state()
    cli.gpuproof("cleanup", "--idle-for", "1h", "--delete", "--yes")
    assert account.state() == before


def test_a_deletion_that_is_denied_does_not_prevent_the_others(
    account: EmulatedAccount, cli: CliSandbox
) -> None:
    for name in ("a", "b", "c"):
        account.endpoint(name)
    account.fault("access-denied,operation=DeleteEndpoint,name=b")
    done = cli.gpuproof("cleanup", "a", "b", "c", "--delete", "--yes")
    assert done.returncode == 5
    assert "endpoint/b in us-east-1: " in done.stderr
    assert {key for key in account.state() if "/endpoint/" in key} == {"us-east-1/endpoint/b"}


def test_what_somebody_else_deleted_is_gone(account: EmulatedAccount, cli: CliSandbox) -> None:
    account.endpoint("chat", tags=OWN)
    # The endpoint disappears with the request that would delete it.
    account.fault("drop,operation=DeleteEndpoint,when=after,count=1")
    done = cli.gpuproof("cleanup", "endpoint/chat", "--delete", "--yes")
    assert "it was gone already" in done.stdout, done.stderr
    assert account.state() == {}


def test_throttled_requests_are_repeated(account: EmulatedAccount, cli: CliSandbox) -> None:
    account.endpoint("chat")
    account.fault("throttling,service=sagemaker,count=12")
    assert list(by_key(listed(cli))) == ["us-east-1/endpoint/chat"]


def test_without_a_terminal_deleting_needs_yes(account: EmulatedAccount, cli: CliSandbox) -> None:
    account.endpoint("chat", tags=OWN)
    before = account.state()
    for words in (["chat", "--delete"], ["--delete"], ["--delete", "--yes"], ["chat", "--delete", "--json"]):
        done = cli.gpuproof("cleanup", *words, stdin=subprocess.DEVNULL)
        assert done.returncode == 2
        assert "Nothing was deleted" in done.stderr
    assert account.state() == before


@pytest.mark.parametrize(
    "words",
    [
        ["chat", "--gpuproof"],
        ["--yes"],
        ["--kind", "endpont"],
        ["--region", "mars-1"],
        ["--older-than", "soon"],
    ],
)
def test_wrong_usage_is_rejected(account: EmulatedAccount, cli: CliSandbox, words: list[str]) -> None:
    done = cli.gpuproof("cleanup", *words)
    assert done.returncode == 2
    assert account.changes() == []


def test_json_says_what_was_done(account: EmulatedAccount, cli: CliSandbox) -> None:
    account.endpoint("chat", tags=OWN)
    document = listed(cli, "--gpuproof", "--delete", "--yes")
    assert document["selected"] == ["us-east-1/endpoint/chat"]
    assert document["results"] == [
        {"key": "us-east-1/endpoint/chat", "result": "done", "error": None, "not_done": []}
    ]


def test_500_endpoints_in_20_regions_take_few_requests_although_some_are_throttled(
    account: EmulatedAccount, cli: CliSandbox
) -> None:
    regions = [
        region["RegionName"] for region in account.client("ec2", "us-east-1").describe_regions()["Regions"]
    ][:20]
    for region in regions:
        account.endpoint("first", region)
        for number in range(24):
            account.endpoint(f"e-{number}", region, config="first-config")
    account.fault("throttling,service=sagemaker,rate=10")
    words = [f"--region={region}" for region in regions]
    document = listed(cli, *words)
    assert len(document["resources"]) == 25 * len(regions)
    assert account.requests("GetMetricData") == len(regions)
    assert account.requests("DescribeEndpoint") == 0
    # One description for each configuration; throttled requests were repeated.
    assert account.requests("DescribeEndpointConfig") >= len(regions)
