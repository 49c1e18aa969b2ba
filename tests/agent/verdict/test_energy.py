"""Energy of the job's GPUs, from their power over time."""

import pytest

from gpuproof.agent.verdict import Energy, Expectation, HostReport, Verdict, judge, merge_hosts
from gpuproof.gpu.telemetry import Telemetry
from gpuproof.terminal.verdict import render
from support.gpu_timelines import JOB, STRANGER, gpu, watched

ONE = Expectation(1, "A10G", "instance_type: g5.xlarge", required=True)
TWO = Expectation(2, "A10G", "instance_type: g5.12xlarge", required=True)
BUSY = {"mib": 8000, "pids": {JOB: 7900}}
# 30 W idle and 200 W busy.
WORKING = gpu(90, **BUSY)
UNTOUCHED = gpu()


def energy(expectation: Expectation, telemetry: Telemetry) -> Energy | None:
    return judge(expectation, telemetry).energy


def test_energy_is_the_power_integrated_over_the_run():
    assert energy(ONE, watched(60, WORKING)) == Energy(60 * 200.0, 1)


def test_idle_time_before_and_after_the_work_counts():
    assert energy(ONE, watched(60, gpu(90, **BUSY, since=21, until=41))) == Energy(20 * 200.0 + 40 * 30.0, 1)


def test_it_does_not_depend_on_how_often_power_is_sampled():
    often, rarely = (energy(ONE, watched(60, WORKING, step=step)) for step in (0.5, 5))
    assert often is not None
    assert rarely is not None
    assert often.joules == pytest.approx(rarely.joules)


def test_an_idle_gpu_of_a_rented_machine_counts():
    assert energy(TWO, watched(60, WORKING, UNTOUCHED)) == Energy(60 * 200.0 + 60 * 30.0, 2)


def test_a_gpu_of_a_shared_machine_that_the_job_never_opened_does_not_count():
    assert energy(ONE, watched(60, WORKING, UNTOUCHED)) == Energy(60 * 200.0, 1)


def test_a_gpu_that_another_process_used_is_not_the_jobs():
    others = gpu(95, mib=9000, pids={STRANGER: 9000})
    assert energy(TWO, watched(60, WORKING, others)) == Energy(60 * 200.0, 1)


def test_time_in_which_only_others_used_the_gpu_does_not_count():
    telemetry = watched(60, gpu(90, **BUSY, since=31, idle_mib=9000, idle_pids={STRANGER: 9000}))
    found = energy(ONE, telemetry)
    assert found is not None
    assert found.joules == 30 * 200.0


def test_without_power_readings_there_is_no_energy():
    verdict = judge(ONE, watched(60, gpu(90, **BUSY, since=0, power_w=None)))
    assert verdict.energy is None
    assert "energy" not in verdict.to_json()
    assert "energy_j" not in verdict.to_json()["gpus"][0]
    assert "energy" not in render(verdict.to_json())


def test_a_gpu_that_was_lost_counts_as_long_as_it_was_readable():
    assert energy(ONE, watched(60, gpu(90, **BUSY, lost_at=31))) == Energy(30 * 200.0, 1)


def test_the_energy_of_hosts_is_summed():
    report = HostReport(judge(ONE, watched(60, WORKING)).to_json())
    document = merge_hosts(["algo-1", "algo-2"], {"algo-1": report, "algo-2": report})
    assert document is not None
    verdict = Verdict.from_json(document)
    assert verdict.energy == Energy(2 * 60 * 200.0, 2)
    assert [host.energy for host in verdict.hosts] == [Energy(60 * 200.0, 1)] * 2


def test_a_host_without_readings_leaves_the_energy_of_the_others():
    known = HostReport(judge(ONE, watched(60, WORKING)).to_json())
    unknown = HostReport(judge(ONE, watched(60, gpu(90, **BUSY, since=0, power_w=None))).to_json())
    document = merge_hosts(["algo-1", "algo-2"], {"algo-1": known, "algo-2": unknown})
    assert document is not None
    assert Verdict.from_json(document).energy == Energy(60 * 200.0, 1)


def test_it_is_a_line_of_the_verdict():
    text = render(judge(ONE, watched(36_000, WORKING, step=10)).to_json())
    assert "energy     2 kWh by the GPUs" in text.splitlines()
