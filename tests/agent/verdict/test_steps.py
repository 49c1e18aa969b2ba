"""Where the time of the steps went, from what the processes of the script have recorded."""

import json
from typing import Any

import pytest

from gpuproof.agent.environments.sagemaker_container import LONGEST_LINE, verdict_line
from gpuproof.agent.log_markers import VERDICT_MARKER
from gpuproof.agent.verdict import NO_GPU_EXPECTED, HostReport, Verdict, merge_hosts
from gpuproof.agent.verdict.evidence import Steps
from gpuproof.agent.verdict.steps import host_steps
from support.step_documents import document, location


def steps(*documents: Any) -> Steps:
    found = host_steps(documents)
    assert found is not None
    return found


def test_phases_add_up_to_the_time_of_the_steps():
    total = steps(document(input=0.4, forward=0.2, backward=0.3)).total
    assert (total.steps, total.seconds) == (200, 50)
    assert total.phases["input"] == pytest.approx(20)
    assert total.phases["rest"] == pytest.approx(5)
    assert sum(total.phases.values()) == pytest.approx(total.seconds)


def test_phases_by_another_clock_are_at_most_the_time_of_the_steps():
    total = steps(document(forward=0.7, backward=0.7)).total
    assert total.phases["forward"] == pytest.approx(25)
    assert total.phases["rest"] == 0


def test_a_host_has_the_means_over_its_ranks_also_of_each_epoch():
    found = steps(document(0, input=0.6), document(1, input=0.2))
    assert found.total.phases["input"] == pytest.approx(20)
    assert [(epoch.epoch, epoch.steps) for epoch in found.epochs] == [(0, 100), (1, 100)]
    assert found.epochs[1].phases["input"] == pytest.approx(10)
    assert [rank.rank for rank in found.ranks] == [0, 1]


def test_a_rank_that_its_launcher_restarted_is_one_rank():
    loader = {"input": location("DataLoader", count=200, seconds=20)}
    found = steps(
        document(0, clock=2000, input=0.4, locations=loader), document(0, input=0.4, locations=loader)
    )
    (rank,) = found.ranks
    assert (rank.total.steps, rank.total.seconds) == (400, 100)
    assert (rank.locations["input"].count, rank.locations["input"].seconds) == (400, 40)
    assert len(rank.windows) == 20


def test_processes_without_ranks_add_up_if_one_follows_the_other():
    first, second = document(input=0.4), document(input=0.4, clock=1051)
    assert steps(second, first).total.steps == 400
    assert steps(first, document(clock=1010)).total.steps == 200


def test_many_windows_are_merged_without_losing_a_step():
    windows = steps(document(steps=3600, windows=360)).ranks[0].windows
    assert len(windows) == 60
    assert sum(window.steps for window in windows) == 3600
    assert windows[-1].ended == 1000 + 900


@pytest.mark.parametrize(
    "invalid",
    [
        {},
        {"steps": 3, "seconds": float("nan"), "phases": {}},
        {"steps": 0, "seconds": 1.0, "phases": {}},
        {"steps": True, "seconds": 1.0, "phases": {}},
        {"steps": 3, "seconds": 10**400, "phases": {}},
        {"steps": 3, "seconds": 1.0, "phases": ["input"]},
    ],
)
def test_anything_else_that_a_script_wrote_has_no_steps(invalid: dict[str, Any]):
    assert host_steps([invalid]) is None


def test_invalid_parts_of_a_document_are_ignored():
    broken = document(input=0.5) | {
        "loop": ["?"],
        "epochs": [1, {"epoch": "one"}, {"epoch": 3, "steps": 5, "seconds": 2.0, "phases": {"input": "x"}}],
        "locations": {"input": {"path": 3}, "copy": 4, "exotic": location("x")},
        "windows": [[1], "x", [None] * 5, [2000.0, 5, 2.0, 9.0, -1.0], [2000.0, 5, 2.0, 9.0, 0.0]],
        "median_step_s": "fast",
    }
    found = steps(broken)
    (rank,) = found.ranks
    assert rank.loop == "unknown"
    assert [epoch.epoch for epoch in found.epochs] == [3]
    assert rank.locations == {}
    assert [window.own_s for window in rank.windows] == [2.0]
    assert rank.median_step_s is None


def test_steps_survive_the_json_of_a_verdict_and_the_merge_of_hosts():
    own = Verdict(NO_GPU_EXPECTED, "CPU.", steps=steps(document(0, input=0.4)))
    other = Verdict(NO_GPU_EXPECTED, "CPU.", steps=steps(document(1, input=0.2)))
    reports = {"algo-1": HostReport(own.to_json()), "algo-2": HostReport(other.to_json())}
    merged = merge_hosts(reports, reports)
    assert merged is not None
    read = Verdict.from_json(json.loads(json.dumps(merged)))
    assert read.steps is not None
    assert read.steps.total.phases["input"] == pytest.approx(15)
    assert [(epoch.epoch, epoch.phases["input"]) for epoch in read.steps.epochs] == [(0, 7.5), (1, 7.5)]
    assert [rank.rank for host in read.hosts if host.steps for rank in host.steps.ranks] == [0, 1]
    assert read.hosts[1].steps is not None
    assert (read.hosts[1].steps.ranks[0].host, read.hosts[1].steps.ranks[0].windows) == ("algo-2", ())


def test_the_verdict_of_a_long_run_on_many_gpus_fits_a_line_of_a_log():
    ranks = [document(rank, steps=36000, windows=360, input=1 / 3) for rank in range(8)]
    for each in ranks:
        each["epochs"] = [{**each["epochs"][0], "epoch": number} for number in range(200)]
    line = verdict_line(Verdict(NO_GPU_EXPECTED, "CPU.", steps=steps(*ranks)).to_json())
    assert len(line) < LONGEST_LINE
    read = Verdict.from_json(json.loads(line.removeprefix(VERDICT_MARKER)))
    assert read.steps is not None
    assert len(read.steps.epochs) == 200
