"""The pages of the dashboard, from values."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Any

from gpuproof.account.cost.collect import Costs
from gpuproof.account.cost.entry import CostEntry
from gpuproof.app.account.cost import CostResult
from gpuproof.app.dashboard import cost_page, error_page, live_page, plans_page, runs_document
from gpuproof.app.live_view import Readings
from gpuproof.app.run_list import RunList
from gpuproof.backends.local.backend import LocalBackend
from gpuproof.backends.record import RunRecord
from gpuproof.errors import ExitCode, GPUproofError
from gpuproof.planning.history.store import History
from gpuproof.report import Callout, LineChart, Page, Table, page_json
from gpuproof.units import Duration
from support.live_snapshots import GIB, gpu, job


def blocks(page: Page, kind: type[Any]) -> list[Any]:
    return [block for section in page.sections for block in section.blocks if isinstance(block, kind)]


def test_each_of_a_few_gpus_has_a_line_and_its_memory_a_limit() -> None:
    page = live_page(replace(job(gpus=2), times=(1.0, 2.0, 4.0), cost_usd=1.5))
    busy, *_ = blocks(page, LineChart)
    assert [(line.label, tuple(line.values)) for line in busy.lines] == [
        ("GPU 0", (10, 50, 90)),
        ("GPU 1", (10, 50, 90)),
    ]
    assert page.status is not None
    assert page.status.word == "InProgress"
    assert "$1.50" in json.dumps(page_json(page))


def test_many_gpus_are_one_line_with_a_band_for_each_host_or_for_all() -> None:
    (few,) = blocks(live_page(replace(job(hosts=4, gpus=8), times=(1.0, 2.0, 4.0))), LineChart)
    assert [line.label for line in few.lines] == [f"algo-{number} (mean)" for number in range(1, 5)]
    assert tuple(few.lines[0].low) == (10, 50, 90)
    (many,) = blocks(live_page(replace(job(hosts=16, gpus=8), times=(1.0, 2.0, 4.0))), LineChart)
    assert [line.label for line in many.lines] == ["all 128 GPUs (mean)"]


def test_a_run_that_is_watched_late_is_drawn_from_there() -> None:
    before, early, late = (
        blocks(live_page(replace(job(), times=(start, start + 1, start + 9))), LineChart)[0].begin
        for start in (-33.0, 1.0, 18000.0)
    )
    assert (before, early, late) == (-33.0, 0.0, 18000.0)


def test_what_a_gpu_waits_for_and_missing_values_are_told() -> None:
    waiting = gpu(0, 5, waiting_for={"kind": "input", "text": "waits for input"})
    snapshot = job()
    snapshot = replace(
        snapshot,
        hosts=(replace(snapshot.hosts[0], gpus=(waiting,)),),
        readings=Readings("s3", every_s=5, newest=1000.0, problem="The bucket cannot be read."),
        notices=("The connection was lost.",),
        log=("<b>", "epoch 2"),
    )
    page = live_page(snapshot, now=1060.0)
    texts = [callout.text for callout in blocks(page, Callout)]
    assert texts == ["The connection was lost.", "The bucket cannot be read.", "waits for input"]
    assert "every 5.0 s, 1:00 ago" in json.dumps(page_json(page))


def test_a_run_that_has_not_started_has_no_chart() -> None:
    page = live_page(replace(job(), hosts=(), seconds=None, status="InProgress"))
    assert blocks(page, LineChart) == []
    assert "no values yet" in json.dumps(page_json(page))


def record(**changes: Any) -> RunRecord:
    known = {
        "id": "train-1",
        "job_name": "train",
        "kind": "training",
        "backend": "sagemaker",
        "created": 1000.0,
    }
    return RunRecord.of({**known, "status": "InProgress", **changes})


def test_a_list_of_runs_says_what_is_missing_and_how_runs_ended() -> None:
    error = GPUproofError("AWS refused.", remedy="aws sso login")
    found = RunList(
        (
            record(instance_type="ml.g5.xlarge", instance_count=2, cost_usd=1.25, script_started=1010.0),
            record(id="idle", status="Completed", verdict="idle", gpu_requirement_met=False),
            record(id="broken", status="Failed"),
        ),
        older=3,
        backends=(LocalBackend,),
        failures=((("on SageMaker", "on EC2"), error),),
    )
    document = runs_document(found, now=1070.0)
    assert document["problems"] == ["Runs on SageMaker and on EC2 are not listed: AWS refused. aws sso login"]
    first, idle, broken = document["runs"]
    assert (first["instance"], first["cost"], first["took"]) == ("2 x ml.g5.xlarge", "$1.25", "1:00")
    assert (idle["status_tone"], idle["verdict_tone"]) == ("good", "bad")
    assert (broken["status_tone"], broken["verdict"]) == ("bad", None)
    assert (document["older"], document["backends"]) == (3, ["local"])


def test_costs_have_a_bar_for_each_group_and_what_is_missing() -> None:
    entries = tuple(
        CostEntry(f"r{number}", job, "ec2", "us-east-1", "g5.xlarge", 1, 0.0, 3600, usd, False, 0.0, False)
        for number, (job, usd) in enumerate((("train", 2.0), ("train", 1.0), ("eval", None)))
    )
    costs = Costs(entries, problems=(("Endpoints are not listed.", None),))
    page = cost_page(CostResult(costs, 0.0, Duration.parse("30d"), "job"))
    (chart,) = page.charts
    assert chart.to_json()["labels"] == ["train", "eval"]
    assert blocks(page, Callout)[0].text == "Endpoints are not listed."
    sums, listed = blocks(page, Table)
    assert sums.headers[0] == "Job"
    assert [row[-1] for row in listed.rows] == ["$2.00", "$1.00", "unknown"]


def test_plans_are_listed_with_their_estimates_or_how_to_make_one() -> None:
    assert "gpuproof plan train.py" in json.dumps(page_json(plans_page(History())))
    limits = {"shown": [GIB, 2 * GIB, 3 * GIB], "built_in": [GIB, 2 * GIB, 3 * GIB]}
    estimate = {
        "tier": "a",
        "memory": limits,
        "time": {"shown": [0.1, 0.2, 0.3], "built_in": [0.1, 0.2, 0.3]},
    }
    plan = {"script": "train.py", "created": time.time(), "framework": "torch", "batch": 8, "gpus": 1}
    plans = [{**plan, "key": str(number), "estimates": {"A10G": estimate}} for number in range(2)]
    compared = {"run": "train-1", "created": 0.0, "script": "train.py", "gpu": "A10G"}
    history = History(tuple(plans), (), ({**compared, "memory": {**limits, "measured": 2 * GIB}},), damaged=1)
    page = plans_page(history)
    newest, older, comparison = blocks(page, Table)
    assert (newest.is_collapsed, older.is_collapsed) == (False, True)
    assert newest.rows == [("A10G", "2.0 GiB (1.0-3.0)", "200 ms (100-300)")]
    assert comparison.rows[0][4:8] == ("2.0 GiB", "2.0 GiB (1.0-3.0)", "+0 %", "-")
    assert blocks(page, Callout)[0].word == "damaged"


def test_an_error_is_a_page_with_what_to_do() -> None:
    error = GPUproofError("AWS refused.", remedy="aws sso login")
    error.exit_code = ExitCode.AWS_REFUSED
    assert "aws sso login" in json.dumps(page_json(error_page("Costs", error)))
