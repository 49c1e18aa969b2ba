"""`gpuproof cost` against an emulated account, over HTTP."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from support.cli_sandbox import CliSandbox
from support.emulated_account import DAY, OWN, EmulatedAccount

pytestmark = pytest.mark.slow


def cost(cli: CliSandbox, *words: str) -> dict[str, Any]:
    done = cli.gpuproof("cost", *words, "--format", "json")
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


def ended(account: EmulatedAccount, job: str, number: int, **more: Any) -> None:
    """A run on SageMaker that was billed for half an hour, some days ago."""
    name = f"{job}-20261101-12000{number}-00a{number}"
    tags = {"gpuproof:run": name, "gpuproof:job": job}
    end = time.time() - number * DAY
    account.job(
        name,
        tags=tags,
        status="Completed",
        age=number * DAY + 1800,
        BillableTimeInSeconds=1800,
        TrainingTimeInSeconds=1800,
        TrainingEndTime=end,
        **more,
    )


def test_runs_are_summed_by_job_with_what_spot_saved(account: EmulatedAccount, cli: CliSandbox) -> None:
    ended(account, "small", 1)
    ended(account, "large", 2, count=4)
    spot = {"EnableManagedSpotTraining": True}
    ended(account, "spot", 3, **spot)
    account.emulator.context.store.get("training-job", "us-east-1", "spot-20261101-120003-00a3").document[
        "TrainingTimeInSeconds"
    ] = 6000
    account.job("others")
    document = cost(cli)
    groups = {group["key"]: group for group in document["groups"]}
    assert groups["small"]["usd"] == pytest.approx(0.704)
    assert groups["large"]["usd"] == pytest.approx(4 * 0.704)
    # 1800 of 6000 s were billed.
    assert groups["spot"]["saved_usd"] == pytest.approx(0.704 * 0.7 / 0.3, abs=1e-3)
    assert set(groups) == {"small", "large", "spot"}
    assert document["total"]["usd"] == pytest.approx(6 * 0.704, abs=1e-3)


def test_only_runs_of_the_period_count(account: EmulatedAccount, cli: CliSandbox) -> None:
    ended(account, "new", 1)
    ended(account, "old", 9)
    assert [group["key"] for group in cost(cli, "--since", "7d")["groups"]] == ["new"]
    assert len(cost(cli, "--since", "30d", "--by", "day")["groups"]) == 2


def test_an_endpoint_of_gpuproof_counts_so_far(account: EmulatedAccount, cli: CliSandbox) -> None:
    account.endpoint("chat", tags=OWN, age=2 * DAY)
    account.endpoint("theirs", age=2 * DAY)
    document = cost(cli, "--by", "backend")
    assert [group["key"] for group in document["groups"]] == ["endpoint"]
    assert document["total"]["usd"] == pytest.approx(48 * 1.408, rel=0.02)
    assert document["total"]["running"] == 1


def test_transform_jobs_of_gpuproof_count_with_their_billed_time(
    account: EmulatedAccount, cli: CliSandbox
) -> None:
    mine = {"gpuproof:transform": "x"}
    account.transform("done", tags=mine, count=2, age=2 * DAY, seconds=1800)
    account.transform("failed", tags=mine, age=DAY, seconds=900, status="Failed", instance="ml.g4dn.xlarge")
    account.transform("running", tags=mine, age=660, seconds=0, status="InProgress")
    account.transform("waiting", tags=mine, age=60, status="InProgress")
    account.transform("old", tags=mine, age=40 * DAY, seconds=1800)
    account.transform("theirs", tags={"team": "x"}, seconds=1800)
    account.transform("elsewhere", "eu-west-1", tags=mine, seconds=1800)
    document = cost(cli)
    entries = {entry["id"]: entry for entry in document["entries"]}
    # Neither what has not begun, nor what is older, of somebody else or in another region.
    assert sorted(entries) == ["done", "failed", "running"]
    assert entries["done"]["usd"] == pytest.approx(2 * 1.408 / 2)
    assert entries["failed"]["usd"] == pytest.approx(0.7364 / 4, rel=0.01)
    assert entries["failed"]["billed_seconds"] == pytest.approx(900)
    assert 600 <= entries["running"]["billed_seconds"] < 600 + 600
    assert (entries["running"]["running"], entries["done"]["running"]) == (True, False)
    (group,) = cost(cli, "--by", "backend")["groups"]
    assert (group["key"], group["count"]) == ("transform", 3)
    assert [group["key"] for group in cost(cli, "--since", "25h")["groups"]] == ["running", "failed"]


def test_a_transform_job_of_unknown_price_is_not_0(account: EmulatedAccount, cli: CliSandbox) -> None:
    account.transform("new", tags={"gpuproof:transform": "new"}, seconds=1800, instance="ml.x9.large")
    document = cost(cli)
    assert document["entries"][0]["usd"] is None
    assert document["total"]["unknown_prices"] == 1
    assert "unknown" in cli.gpuproof("cost").stdout


def test_a_notebook_instance_of_gpuproof_counts_since_its_start(
    account: EmulatedAccount, cli: CliSandbox
) -> None:
    mine = {"gpuproof:notebook": "nb"}
    account.notebook("nb", tags=mine, age=20 * DAY, changed=7200)
    account.notebook("left-on", tags=mine, age=60 * DAY, changed=50 * DAY, instance="ml.g4dn.xlarge")
    account.notebook("stopped", tags=mine, age=20 * DAY, changed=7200, status="Stopped")
    account.notebook("theirs", age=20 * DAY, changed=7200)
    document = cost(cli)
    entries = {entry["id"]: entry for entry in document["entries"]}
    assert sorted(entries) == ["left-on", "nb"]
    # Its time before the last start is not kept by AWS.
    assert entries["nb"]["usd"] == pytest.approx(2 * 1.41, rel=0.1)
    assert entries["nb"]["is_derived"]
    assert entries["left-on"]["billed_seconds"] == pytest.approx(30 * DAY, rel=0.01)
    assert document["total"]["running"] == 2
    assert "~$" in cli.gpuproof("cost").stdout


@pytest.mark.parametrize(
    ("operation", "what"),
    [
        ("ListTransformJobs", "batch transform jobs"),
        ("DescribeTransformJob", "batch transform jobs"),
        ("ListNotebookInstances", "notebook instances"),
    ],
)
def test_a_kind_that_cannot_be_read_is_named_and_the_rest_is_counted(
    account: EmulatedAccount, cli: CliSandbox, operation: str, what: str
) -> None:
    ended(account, "small", 1)
    account.transform("done", tags={"gpuproof:transform": "done"}, seconds=1800)
    account.notebook("nb", tags={"gpuproof:notebook": "nb"})
    account.fault(f"access-denied,service=sagemaker,operation={operation}")
    done = cli.gpuproof("cost")
    assert done.returncode == 5
    assert f"{what} are not counted" in done.stderr
    assert operation in done.stderr
    assert "small" in done.stdout
    assert ("nb" in done.stdout, "done" in done.stdout) == (
        what != "notebook instances",
        what != "batch transform jobs",
    )


def test_throttled_requests_are_repeated(account: EmulatedAccount, cli: CliSandbox) -> None:
    account.transform("done", tags={"gpuproof:transform": "done"}, seconds=1800)
    account.fault("throttling,service=sagemaker,operation=ListTransformJobs,count=8")
    assert [entry["id"] for entry in cost(cli)["entries"]] == ["done"]


def test_without_permission_the_rest_is_counted(account: EmulatedAccount, cli: CliSandbox) -> None:
    ended(account, "small", 1)
    account.fault("access-denied,service=sagemaker,operation=ListEndpoints")
    done = cli.gpuproof("cost")
    assert done.returncode == 5
    assert "endpoints are not counted" in done.stderr
    assert "$0.70" in done.stdout


def test_cost_explorer_is_asked_only_with_its_flag(account: EmulatedAccount, cli: CliSandbox) -> None:
    from moto.ce.models import ce_backends

    ended(account, "small", 1)
    cost(cli)
    assert account.requests("GetCostAndUsage") == 0
    amount = {"UnblendedCost": {"Amount": "0.71", "Unit": "USD"}}
    answer = {
        "ResultsByTime": [
            {
                "TimePeriod": {"Start": "2026-11-01", "End": "2026-11-02"},
                "Groups": [{"Keys": ["gpuproof:job$small"], "Metrics": amount}],
                "Total": {},
                "Estimated": True,
            }
        ]
    }
    ce_backends["123456789012"]["global"].cost_usage_results_queue.append(answer)
    document = cost(cli, "--cost-explorer")
    assert account.requests("GetCostAndUsage") == 1
    assert document["groups"][0]["cost_explorer_usd"] == pytest.approx(0.71)


def test_a_refused_bill_keeps_the_records(account: EmulatedAccount, cli: CliSandbox) -> None:
    ended(account, "small", 1)
    account.fault("access-denied,service=ce")
    done = cli.gpuproof("cost", "--cost-explorer")
    assert done.returncode == 5
    assert "Cost Explorer's figures are missing" in done.stderr
    assert "small" in done.stdout


def test_an_account_without_runs_cost_nothing(cli: CliSandbox) -> None:
    done = cli.gpuproof("cost")
    assert (done.returncode, "No run" in done.stdout) == (0, True), done.stderr
