"""What happened during a run: from the GPUs, from what processes recorded of their steps, and of several hosts."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest

from gpuproof.agent.verdict import Expectation, HostReport, Verdict, judge, merge_hosts
from gpuproof.agent.verdict.events import MOST, exit_event, host_events, job_events
from gpuproof.agent.verdict.evidence import RunEvent
from gpuproof.watch.report import WatchReport
from support.gpu_timelines import JOB, gpu, watched

BEGAN = 1000.0
TWO = Expectation(2, required=True)
WORKING = gpu(90, mib=8000, pids={JOB: 7900}, since=5)
LATER = gpu(90, mib=8000, pids={JOB: 7900}, since=9)
LOST = gpu(90, mib=8000, pids={JOB: 7900}, since=5, lost_at=50)
RECORDED = [[1010.0, "epoch", 0], [1020.0, "evaluation", None], [1025.5, "checkpoint", None]]


def of_steps(*documents: dict[str, Any], seconds: float = 60) -> list[tuple[float, str, str]]:
    found = host_events(watched(seconds), (), documents, BEGAN, ())
    return [(event.seconds, event.kind, event.label) for event in found]


def verdict_with(*events: RunEvent) -> Verdict:
    telemetry = watched(60, WORKING, LATER)
    verdict = judge(TWO, telemetry)
    found = host_events(telemetry, verdict.gpus, [{"rank": 0, "events": RECORDED}], BEGAN, events)
    return Verdict.from_json({**verdict.to_json(), "events": [vars(event) for event in found]})


def test_the_first_use_is_that_of_the_first_gpu_and_a_lost_one_is_named() -> None:
    telemetry = watched(60, LATER, LOST)
    first, lost = host_events(telemetry, judge(TWO, telemetry).gpus, (), BEGAN, ())
    assert first == RunEvent(5.0, "first-use", "first use of GPU 1")
    assert (lost.seconds, lost.kind) == (50.0, "lost-gpu")
    assert lost.label == "GPU 1 could not be read any more: GPU is lost (NVML code 15)"


def test_what_a_process_recorded_is_relative_to_the_beginning_and_epochs_count_from_1() -> None:
    assert of_steps({"rank": 0, "events": RECORDED}) == [
        (10.0, "epoch", "epoch 1"),
        (20.0, "evaluation", "evaluation"),
        (25.5, "checkpoint", "checkpoint"),
    ]


def test_of_several_ranks_the_lowest_counts_also_after_a_restart() -> None:
    first, second = (
        {"rank": 2, "events": [[1010.0, "epoch", 0]]},
        {"rank": 2, "events": [[1030.0, "epoch", 1]]},
    )
    other = {"rank": 3, "events": [[1011.0, "epoch", 0]]}
    assert [label for _, _, label in of_steps(other, second, first)] == ["epoch 1", "epoch 2"]


@pytest.mark.parametrize(
    "events",
    [
        None,
        "epoch",
        [3],
        [[1010.0, "epoch"]],
        [["soon", "epoch", 1]],
        [[float("nan"), "epoch", 1]],
        [[10**400, "epoch", 1]],
        [[1010.0, ["epoch"], 1]],
        [[1010.0, "party", 1]],
        [[999.0, "epoch", 1]],
        [[1062.0, "epoch", 1]],
    ],
)
def test_what_the_script_has_overwritten_or_another_run_left_is_ignored(events: Any) -> None:
    assert of_steps({"rank": 0, "events": events}) == []


def test_of_too_many_events_every_kth_epoch_is_kept_and_all_others() -> None:
    epochs = [[BEGAN + number, "epoch", number] for number in range(1, 1001)]
    saved = [[BEGAN + 10.5 * number, "checkpoint", None] for number in range(1, 91)]
    found = of_steps({"rank": 0, "events": epochs + saved}, seconds=1000)
    assert len(found) <= MOST
    assert sum(kind == "checkpoint" for _, kind, _ in found) == 90
    numbers = [int(label.split()[1]) for _, kind, label in found if kind == "epoch"]
    assert len(numbers) >= 80
    assert len({after - before for before, after in pairwise(numbers)}) == 1


def test_events_of_many_hosts_stay_few() -> None:
    hosts = {
        f"algo-{number}": [
            RunEvent(5.0 + number, "first-use", "first use of GPU 0"),
            exit_event(60.0, 0, is_failure=False),
        ]
        for number in range(128)
    }
    hosts["algo-77"].append(exit_event(50.0, -9, is_failure=True))
    found = job_events(hosts)
    assert len(found) <= MOST
    assert sum(event.kind == "first-use" for event in found) == 128
    assert [event.host for event in found if event.kind == "failure"] == ["algo-77"]


def test_the_verdict_on_several_hosts_has_the_epochs_of_the_first_and_the_ends_of_all() -> None:
    good, bad = exit_event(60.0, 0, is_failure=False), exit_event(55.0, 1, is_failure=True)
    reports = {
        "algo-1": HostReport(verdict_with(good).to_json()),
        "algo-2": HostReport(verdict_with(bad).to_json()),
    }
    document = merge_hosts(reports, reports)
    assert document is not None
    assert json.loads(json.dumps(document)) == Verdict.from_json(document).to_json()
    assert [(event["host"], event["kind"], event["label"]) for event in document["events"]] == [
        ("algo-1", "first-use", "first use of GPU 0"),
        ("algo-2", "first-use", "first use of GPU 0"),
        ("algo-1", "epoch", "epoch 1"),
        ("algo-1", "evaluation", "evaluation"),
        ("algo-1", "checkpoint", "checkpoint"),
        ("algo-2", "failure", "the script exited with code 1"),
        ("algo-1", "end", "the script exited with code 0"),
    ]


def test_a_single_hosts_events_name_no_host_and_without_any_there_is_no_key() -> None:
    assert all("host" not in event for event in verdict_with().to_json()["events"])
    assert "events" not in judge(TWO, watched(60, WORKING)).to_json()


@pytest.mark.parametrize(
    ("facts", "kind", "label"),
    [
        ({"exit_code": 0}, "end", "the script exited with code 0"),
        ({"exit_code": 3}, "failure", "the script exited with code 3"),
        ({"signal": 11}, "failure", "the script was killed by SIGSEGV"),
        ({"signal": 9, "stopped_because": "stalled"}, "end", "the script was killed by SIGKILL"),
    ],
)
def test_a_report_on_a_watched_program_ends_with_its_exit(
    facts: dict[str, Any], kind: str, label: str
) -> None:
    report = WatchReport.of(Verdict("used", "", seconds=60.0), **facts)
    assert report.verdict["events"] == [{"seconds": 60.0, "kind": kind, "label": label}]


def test_a_program_whose_end_is_unknown_has_none() -> None:
    assert "events" not in WatchReport.of(Verdict("used", "", seconds=60.0)).verdict
