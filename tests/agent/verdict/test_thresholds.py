"""How much work counts as use: the table in `docs/verdict-reference.md`, case by case."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from gpuproof.agent.verdict import CPU_ONLY, IDLE, UNKNOWN, USED, Expectation, judge
from gpuproof.gpu.nvml import GpuReading
from gpuproof.gpu.telemetry import Telemetry
from support.gpu_timelines import JOB, STRANGER, Timeline, gpu, watched

DOCUMENTATION = (Path(__file__).parents[3] / "docs" / "verdict-reference.md").read_text()
CASES = re.findall(
    r"^\| (.+?) \| (\d+) s \| (\d+) % for ([\d.]+) s \| `([\w-]+)` \|$", DOCUMENTATION, re.MULTILINE
)
ONE = Expectation(1, required=True)
HELD = {"mib": 8000, "pids": {JOB: 7900}}
SHARED = {"mib": 20000, "pids": {JOB: 8000, STRANGER: 11000}}


def working(utilization: int, seconds: float, *, listed: bool) -> Timeline:
    memory = HELD if listed else {"mib": 8000}

    def reading(index: int, t: float) -> GpuReading:
        busy = 1 < t <= 1 + seconds
        return gpu(utilization if busy else 0, since=0.2, **memory)(index, t)  # type: ignore[arg-type]

    return reading


def watch(held: str, utilization: str, seconds: str, *, listed: bool) -> Telemetry:
    timeline = working(int(utilization), float(seconds), listed=listed)
    step = 0.25 if float(held) < 100 else 1.0
    return watched(1 + float(held), timeline, step=step, pids_comparable=listed)


def test_the_documentation_has_cases_of_both_outcomes() -> None:
    assert len(CASES) >= 12
    assert {case[-1] for case in CASES} == {USED, IDLE}


@pytest.mark.parametrize(("case", "held", "utilization", "seconds", "outcome"), CASES)
@pytest.mark.parametrize("listed", [True, False], ids=["by processes", "by counters"])
def test_the_verdict_is_as_documented(
    case: str, held: str, utilization: str, seconds: str, outcome: str, listed: bool
) -> None:
    assert judge(ONE, watch(held, utilization, seconds, listed=listed)).outcome == outcome, case


def test_a_share_that_nvml_reported_for_most_of_the_run_decides() -> None:
    def unclear_at_the_end(index: int, t: float) -> GpuReading:
        reading = gpu(90, **SHARED, process_utilization=((STRANGER, 90),))(index, t)  # type: ignore[arg-type]
        return replace(reading, process_utilization=None) if t > 58 else reading

    assert judge(ONE, watched(60, unclear_at_the_end)).outcome == IDLE


def test_the_message_states_how_long_nvml_reported_the_share() -> None:
    def unclear_for_a_third(index: int, t: float) -> GpuReading:
        reading = gpu(90, **SHARED, process_utilization=((STRANGER, 90),))(index, t)  # type: ignore[arg-type]
        return replace(reading, process_utilization=None) if t > 40 else reading

    verdict = judge(ONE, watched(60, unclear_for_a_third))
    assert verdict.outcome == UNKNOWN
    assert "NVML reported the job's share for only 40 s of 60 s" in verdict.reason


def test_a_busy_gpu_without_process_samples_has_no_report() -> None:
    verdict = judge(ONE, watched(60, gpu(90, **SHARED, process_utilization=())))  # type: ignore[arg-type]
    assert verdict.outcome == UNKNOWN
    assert "does not report each process's share" in verdict.reason


def mig(**options: object) -> Timeline:
    return gpu(None, idle_util=None, **options)  # type: ignore[arg-type]


def test_a_mig_instance_that_was_never_opened_is_cpu_only() -> None:
    verdict = judge(ONE, watched(60, mig()))
    assert verdict.outcome == CPU_ONLY
    assert verdict.gpu_requirement_met is False
    assert judge(ONE, watched(60, mig(), pids_comparable=False)).outcome == CPU_ONLY


def test_a_mig_instance_that_was_opened_is_unknown() -> None:
    assert judge(ONE, watched(60, mig(**HELD))).outcome == UNKNOWN
    assert judge(ONE, watched(60, mig(mib=8000), pids_comparable=False)).outcome == UNKNOWN


def test_a_mig_instance_whose_memory_nvml_does_not_report_is_unknown() -> None:
    assert judge(ONE, watched(60, mig(mib=None, idle_mib=None))).outcome == UNKNOWN
