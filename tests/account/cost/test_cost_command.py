"""`gpuproof cost` against an emulated account, over HTTP."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from support.cli_sandbox import CliSandbox
from support.emulated_account import DAY, OWN, EmulatedAccount


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
    groups = {one["key"]: one for one in document["groups"]}
    assert groups["small"]["usd"] == pytest.approx(0.704)
    assert groups["large"]["usd"] == pytest.approx(4 * 0.704)
    # 1800 of 6000 s were billed.
    assert groups["spot"]["saved_usd"] == pytest.approx(0.704 * 0.7 / 0.3, abs=1e-3)
    assert set(groups) == {"small", "large", "spot"}
    assert document["total"]["usd"] == pytest.approx(6 * 0.704, abs=1e-3)


def test_only_runs_of_the_period_count(account: EmulatedAccount, cli: CliSandbox) -> None:
    ended(account, "new", 1)
    ended(account, "old", 9)
    assert [one["key"] for one in cost(cli, "--since", "7d")["groups"]] == ["new"]
    assert len(cost(cli, "--since", "30d", "--by", "day")["groups"]) == 2


def test_an_endpoint_of_gpuproof_counts_so_far(account: EmulatedAccount, cli: CliSandbox) -> None:
    account.endpoint("chat", tags=OWN, age=2 * DAY)
    account.endpoint("theirs", age=2 * DAY)
    document = cost(cli, "--by", "backend")
    assert [one["key"] for one in document["groups"]] == ["endpoint"]
    assert document["total"]["usd"] == pytest.approx(48 * 1.408, rel=0.02)
    assert document["total"]["running"] == 1


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
