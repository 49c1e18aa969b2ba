"""The verdicts of several hosts become one verdict on the job, which hides no host."""

import json
from dataclasses import replace
from typing import Any

import pytest

from gpuproof.agent.verdict import (
    CPU_ONLY,
    IDLE,
    NO_GPU_EXPECTED,
    OCCUPIED,
    PARTLY_USED,
    UNKNOWN,
    USED,
    Expectation,
    HostReport,
    Verdict,
    judge,
    merge_hosts,
)
from gpuproof.gpu.nvml import MIB
from gpuproof.gpu.telemetry import NvmlState, Series
from support.gpu_timelines import JOB, SPINNING, Timeline, cpu, gpu, watched

FOUR = Expectation(4, "A10G", "instance_type: ml.g5.12xlarge", required=True)
NONE = Expectation()
BUSY = {"mib": 8000, "pids": {JOB: 7900}}
WORKING = gpu(90, **BUSY, since=5)
HELD = gpu(0, **BUSY)
UNTOUCHED = gpu()


def report(*gpus: Timeline, expected: Expectation = FOUR, started: float = 1000.0, **more: Any) -> HostReport:
    verdict = judge(expected, watched(60, *gpus, **more)).to_json()
    return HostReport(verdict, {"script_started": started, "script_ended": started + 60})


def merged(*reports: HostReport | None) -> Verdict:
    hosts = [f"algo-{number}" for number in range(1, len(reports) + 1)]
    found = {host: report for host, report in zip(hosts, reports, strict=True) if report is not None}
    document = merge_hosts(hosts, found)
    assert document is not None
    assert json.loads(json.dumps(document)) == Verdict.from_json(document).to_json()
    return Verdict.from_json(document)


def test_gpus_are_summed_over_all_hosts_and_name_their_host():
    verdict = merged(report(*[WORKING] * 4), report(*[WORKING] * 4))
    assert (verdict.outcome, verdict.gpu_requirement_met) == (USED, True)
    assert (verdict.gpus_working, verdict.gpus_expected, verdict.gpus_present) == (8, 8, 8)
    assert verdict.reason == "8 of 8 GPUs on 2 hosts worked, 90% busy on average while in use."
    assert [(gpu.host, gpu.index) for gpu in verdict.gpus][3:5] == [("algo-1", 3), ("algo-2", 0)]
    assert [host.host for host in verdict.hosts] == ["algo-1", "algo-2"]
    assert verdict.expectation.gpus == 8


def test_a_host_with_idle_gpus_is_named_and_does_not_meet_the_requirement():
    verdict = merged(report(*[WORKING] * 4), report(WORKING, WORKING, UNTOUCHED, UNTOUCHED))
    assert verdict.reason == (
        "6 of 8 GPUs worked, 90% busy on average while in use; algo-2: GPUs 2 and 3 did nothing for the job."
    )
    assert (verdict.outcome, verdict.gpu_requirement_met) == (PARTLY_USED, False)


def test_hosts_with_the_same_gap_are_named_together():
    gap = report(WORKING, WORKING, WORKING, UNTOUCHED)
    verdict = merged(report(*[WORKING] * 4), gap, gap, gap)
    assert verdict.reason.endswith("; algo-2 to algo-4: GPU 3 did nothing for the job.")


def test_a_host_without_a_verdict_leaves_it_undecided_and_counts_like_the_others():
    verdict = merged(report(*[WORKING] * 4), None)
    assert verdict.reason == "4 of 8 GPUs worked, 90% busy on average while in use; algo-2: no verdict."
    assert (verdict.outcome, verdict.gpu_requirement_met) == (UNKNOWN, None)
    assert verdict.hosts[1].outcome is None


def test_an_idle_gpu_is_certain_whatever_a_missing_host_did():
    verdict = merged(report(WORKING, WORKING, WORKING, HELD), None)
    assert (verdict.outcome, verdict.gpu_requirement_met) == (PARTLY_USED, False)


def test_a_host_that_is_partly_used_makes_the_job_partly_used_even_if_that_is_accepted():
    waived = replace(FOUR, required=False)
    hosts = report(*[WORKING] * 4, expected=waived), report(WORKING, *[HELD] * 3, expected=waived)
    verdict = merged(*hosts)
    assert (verdict.outcome, verdict.gpu_requirement_met) == (PARTLY_USED, True)
    assert verdict.reason.endswith("; algo-2: GPUs 1, 2 and 3 did nothing for the job.")


def test_a_host_without_a_driver_is_named_with_the_reason():
    verdict = merged(report(*[WORKING] * 4), report(nvml=NvmlState.MISSING))
    assert "algo-2: No usable GPU: the NVIDIA driver is not installed." in verdict.reason
    assert verdict.gpu_requirement_met is False


@pytest.mark.parametrize(
    ("second", "outcome", "met"),
    [
        (report(*[HELD] * 4), IDLE, False),
        (report(*[UNTOUCHED] * 4), CPU_ONLY, False),
        (report(nvml=NvmlState.FAILED), UNKNOWN, False),
        (None, UNKNOWN, False),
    ],
    ids=["idle", "cpu-only", "unknown", "missing"],
)
def test_without_any_work_the_outcome_is_what_is_certain(
    second: HostReport | None, outcome: str, met: bool | None
):
    verdict = merged(report(*[UNTOUCHED] * 4), second)
    assert (verdict.outcome, verdict.gpu_requirement_met) == (outcome, met)
    assert "algo-1" in verdict.reason
    assert "algo-2" in verdict.reason


def test_a_host_whose_gpus_only_spin_is_occupied_and_named():
    spin = gpu(100, **BUSY, counters=SPINNING)
    verdict = merged(report(*[spin] * 4), report(*[HELD] * 4))
    assert (verdict.outcome, verdict.gpu_requirement_met) == (OCCUPIED, False)
    assert "algo-1: GPUs 0, 1, 2 and 3 did no work (busy 100%, working 1%: " in verdict.reason
    verdict = merged(report(*[WORKING] * 4), report(WORKING, WORKING, WORKING, spin))
    assert verdict.outcome == PARTLY_USED
    assert "; algo-2: GPU 3 did no work (busy 100%, working 1%: waiting for other ranks" in verdict.reason


def test_a_job_that_expects_no_gpu_needs_none_on_any_host():
    both = merged(
        report(expected=NONE, nvml=NvmlState.MISSING), report(expected=NONE, nvml=NvmlState.MISSING)
    )
    assert (both.outcome, both.gpu_requirement_met) == (NO_GPU_EXPECTED, True)
    assert both.reason.startswith("No GPU was expected")
    assert merged(report(expected=NONE, nvml=NvmlState.MISSING), None).gpu_requirement_met is True


def test_bottlenecks_name_their_host_and_processes_are_summed():
    slow = gpu(20, **BUSY)
    verdict = merged(report(slow, cpu=cpu(1.0)), report(WORKING))
    assert [(bottleneck.kind, bottleneck.host) for bottleneck in verdict.bottlenecks] == [
        ("one-core", "algo-1"),
        ("imbalance", None),
    ]
    assert verdict.cpu_count == 16
    assert verdict.processes is not None
    assert verdict.processes.peak_processes == 2


def test_notes_of_all_hosts_are_written_once_and_others_with_their_host():
    hidden = report(*[UNTOUCHED] * 4, visible_devices="")
    other = report(WORKING, WORKING, WORKING, gpu(lost_at=0))
    notes = merged(hidden, other).notes
    assert notes[0].startswith("algo-1: CUDA_VISIBLE_DEVICES= hid GPUs 0, 1, 2 and 3")
    assert notes[1].startswith("algo-2: GPU 3 could not be read")
    assert not any("algo" in note for note in merged(hidden, hidden).notes)


def test_one_host_is_taken_as_it_is_and_none_is_none():
    only = report(WORKING)
    assert merge_hosts(["algo-1"], {"algo-1": only}) == only.verdict
    assert merge_hosts(["algo-1", "algo-2"], {"algo-1": HostReport()}) is None


def test_hosts_are_in_the_order_of_their_numbers():
    hosts = [f"algo-{number}" for number in range(1, 12)]
    found = merge_hosts(reversed(hosts), {host: report(WORKING) for host in hosts})
    assert found is not None
    assert [host["host"] for host in found["hosts"]] == hosts


@pytest.mark.parametrize("change", [{"version": 99}, {"outcome": "new word"}])
def test_a_verdict_of_a_newer_agent_is_unknown_and_not_hidden(change: dict[str, Any]):
    newer = report(*[WORKING] * 4)
    assert newer.verdict is not None
    verdict = merged(report(*[WORKING] * 4), HostReport({**newer.verdict, **change}))
    assert verdict.outcome == USED
    assert verdict.hosts[1].outcome == UNKNOWN


def test_each_gpu_of_several_hosts_keeps_its_series():
    hot = gpu(90, **BUSY, since=5, temperature_c=71)
    first, second = merged(report(hot, hot), report(WORKING, WORKING)).to_json()["gpus"][1:3]
    assert first["series"]["values"][-1] == 90
    assert first["series"]["memory"][-1] == 8000 * MIB
    assert first["series"]["power_w"][-1] == 200
    assert first["series"]["temperature_c"][:6] == [None] * 4 + [71, 71]
    assert len({len(first["series"][name]) for name in ("values", "memory", "power_w", "temperature_c")}) == 1
    assert (second["host"], second["series"].keys()) == (
        "algo-2",
        {"step_s", "values", "memory", "power_w"},
    )


def test_a_document_with_utilization_only_as_of_older_releases_is_readable():
    document = report(WORKING).verdict
    assert document is not None
    (known,) = document["gpus"]
    older = {**known, "series": {"step_s": 1.0, "values": [0, 90.125, None]}}
    verdict = Verdict.from_json({**document, "gpus": [older]})
    assert verdict.gpus[0].series == Series(1.0, (0, 90.125, None))
    assert verdict.to_json()["gpus"][0]["series"] == {"step_s": 1.0, "values": [0, 90, None]}


def test_a_single_hosts_document_has_none_of_the_keys_of_several():
    document = report(WORKING, WORKING).verdict
    assert document is not None
    assert not {"hosts", "throughput"} & document.keys()
    assert not any("host" in gpu for gpu in document["gpus"])
    assert not any("host" in bottleneck for bottleneck in document["bottlenecks"])
