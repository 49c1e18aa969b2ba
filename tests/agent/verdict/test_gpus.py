"""Attribution of GPU work: to the job, to other processes, or unknown."""

from dataclasses import replace

import pytest

from gpuproof.agent.verdict import CPU_ONLY, IDLE, PARTLY_USED, UNKNOWN, USED, Expectation, judge
from support.gpu_timelines import JOB, OUTSIDER, STRANGER, gpu, watched

ONE = Expectation(1, required=True)
CONTAINER = {"pids_comparable": False}
OUR_MEMORY = {"mib": 8000, "pids": {JOB: 7900}}


def test_a_gpu_used_by_another_process_is_not_the_jobs():
    verdict = judge(ONE, watched(60, gpu(95, mib=20000, pids={STRANGER: 19900})))
    assert verdict.outcome == CPU_ONLY
    assert "GPU 0 was used by a process of another job" in verdict.reason
    assert verdict.gpu_requirement_met is False
    assert verdict.gpus[0].others_present
    assert verdict.gpus[0].mean_utilization is None


def test_a_gpu_used_by_another_process_beside_the_jobs_own_is_not_counted():
    verdict = judge(
        Expectation(2, required=True),
        watched(60, gpu(80, **OUR_MEMORY), gpu(95, mib=20000, pids={STRANGER: 19900})),
    )
    assert verdict.outcome == PARTLY_USED
    assert [entry.worked for entry in verdict.gpus] == [True, False]
    assert verdict.gpus[1].judged_by == "processes"


def test_on_a_shared_gpu_the_jobs_own_part_counts():
    shared = {"mib": 20000, "pids": {JOB: 8000, STRANGER: 11000}, "util": 90}
    verdict = judge(ONE, watched(60, gpu(**shared, process_utilization=((JOB, 40), (STRANGER, 50)))))
    assert verdict.outcome == USED
    assert verdict.gpus[0].mean_utilization == pytest.approx(40)
    assert verdict.gpus[0].peak_memory == 8000 * 1024 * 1024
    assert "Another process used GPU 0 too; memory and power count for both." in verdict.notes


def test_on_a_shared_gpu_the_others_work_is_not_the_jobs():
    shared = {"mib": 20000, "pids": {JOB: 8000, STRANGER: 11000}, "util": 90}
    verdict = judge(ONE, watched(60, gpu(**shared, process_utilization=((STRANGER, 90),))))
    assert verdict.outcome == IDLE


def test_on_a_shared_gpu_without_per_process_readings_the_outcome_is_unknown():
    verdict = judge(ONE, watched(60, gpu(90, mib=20000, pids={JOB: 8000, STRANGER: 11000})))
    assert verdict.outcome == UNKNOWN
    assert "does not report each process's share" in verdict.reason
    assert verdict.gpu_requirement_met is None


def test_a_shared_gpu_without_any_work_is_idle():
    assert judge(ONE, watched(60, gpu(0, mib=20000, pids={JOB: 8000, STRANGER: 11000}))).outcome == IDLE


def test_in_a_container_a_gpu_that_the_job_has_to_itself_is_judged_by_its_counters():
    verdict = judge(ONE, watched(60, gpu(85, mib=8000, since=5), **CONTAINER))
    assert verdict.outcome == USED
    assert verdict.gpus[0].judged_by == "device counters"
    assert verdict.gpus[0].first_use_s == 5
    assert any("the devices' own counters" in note for note in verdict.notes)


def test_in_a_container_process_ids_of_the_host_do_not_count_as_others():
    verdict = judge(ONE, watched(60, gpu(85, mib=8000, pids={OUTSIDER: 7900}), **CONTAINER))
    assert verdict.outcome == USED
    assert not verdict.gpus[0].others_present


def test_in_a_container_memory_without_work_is_idle():
    assert judge(ONE, watched(60, gpu(0, mib=8000), **CONTAINER)).outcome == IDLE


def test_in_a_container_a_gpu_that_stayed_empty_was_not_touched():
    verdict = judge(ONE, watched(60, gpu(), **CONTAINER))
    assert verdict.outcome == CPU_ONLY
    assert verdict.gpus[0].touched is False


def test_in_a_container_a_gpu_that_was_taken_before_cannot_be_judged():
    verdict = judge(ONE, watched(60, gpu(85, mib=16000, idle_mib=9000, idle_util=50), **CONTAINER))
    assert verdict.outcome == UNKNOWN
    assert "other processes used it when the job began" in verdict.reason


DESKTOP = {"idle_mib": 1800, "idle_util": 4}


def test_beside_a_desktop_work_with_memory_of_its_own_is_the_jobs():
    verdict = judge(ONE, watched(60, gpu(85, mib=9000, since=5, until=55, **DESKTOP), **CONTAINER))
    assert verdict.outcome == USED
    assert verdict.gpus[0].judged_by == "device counters"
    assert any("were in use when the job began" in note for note in verdict.notes)


def test_beside_a_desktop_a_job_without_memory_of_its_own_did_not_use_the_gpu():
    # A video plays, and nothing takes memory.
    verdict = judge(ONE, watched(60, gpu(40, mib=1810, since=5, **DESKTOP), **CONTAINER))
    assert verdict.outcome == CPU_ONLY
    # The desktop frees memory before.
    freed = watched(60, gpu(20, mib=900, since=5, **DESKTOP), **CONTAINER)
    assert judge(ONE, freed).outcome == CPU_ONLY


def test_beside_a_desktop_a_window_that_opens_is_not_the_jobs_work():
    opened = gpu(12, mib=2100, since=5, **DESKTOP)
    assert judge(ONE, watched(60, opened, **CONTAINER)).outcome == UNKNOWN


def test_beside_a_desktop_memory_that_was_freed_before_does_not_hide_the_jobs():
    def frees(index: int, t: float):
        return gpu(85, mib=1700, since=20, idle_mib=1800 if t < 10 else 700)(index, t)

    assert judge(ONE, watched(60, frees, **CONTAINER)).outcome == USED


def test_in_a_container_a_gpu_that_was_taken_before_and_stayed_quiet_was_not_touched():
    assert judge(ONE, watched(60, gpu(idle_mib=9000, mib=9000), **CONTAINER)).outcome == CPU_ONLY


def test_in_a_container_a_first_look_that_comes_too_late_is_made_good_by_the_last():
    # NVML took four seconds to open; by then the job had its memory. When it was gone, so was the memory.
    ours = gpu(85, mib=8000, since=2, until=60)
    verdict = judge(ONE, watched(60, ours, begin=4, **CONTAINER))
    assert verdict.outcome == USED
    assert verdict.gpus[0].peak_memory == 8000 * 1024 * 1024
    held = judge(ONE, watched(60, gpu(0, mib=8000, since=2, until=60), begin=4, **CONTAINER))
    assert held.outcome == IDLE


def test_in_a_container_memory_present_at_a_late_first_sample_belongs_to_another_process():
    others = gpu(85, mib=8000, since=2)
    assert judge(ONE, watched(60, others, begin=4, **CONTAINER)).outcome == UNKNOWN


def test_in_a_container_a_process_in_a_late_first_sample_may_be_the_jobs():
    ours = gpu(85, mib=8000, pids={OUTSIDER: 7900}, since=2, until=60)
    assert judge(ONE, watched(60, ours, begin=4, **CONTAINER)).outcome == USED


def test_in_a_container_a_process_beside_the_job_makes_it_unclear():
    verdict = judge(ONE, watched(60, gpu(85, mib=8000, pids={STRANGER: 7900}), **CONTAINER))
    assert verdict.outcome == UNKNOWN


def test_in_a_container_matching_process_ids_are_believed():
    verdict = judge(ONE, watched(60, gpu(85, **OUR_MEMORY), gpu(85, mib=8000), **CONTAINER))
    assert [entry.worked for entry in verdict.gpus] == [True, False]
    assert verdict.gpus[0].judged_by == "processes"


def test_where_processes_cannot_be_listed_the_counters_judge():
    verdict = judge(ONE, watched(60, gpu(85, mib=8000, listed=False)))
    assert verdict.outcome == USED
    assert verdict.gpus[0].judged_by == "device counters"


def test_memory_reserved_by_the_driver_is_not_another_process():
    # Without memory_reserved NVML counts the driver's own 500 MiB as used.
    def old_driver(index: int, t: float):
        return replace(gpu(85, mib=8000, idle_mib=500, since=5)(index, t), memory_reserved=None)

    assert judge(ONE, watched(60, old_driver, **CONTAINER)).outcome == USED


def test_a_gpu_whose_utilization_is_not_given_cannot_be_judged():
    verdict = judge(ONE, watched(60, gpu(None, **OUR_MEMORY, idle_util=None)))  # type: ignore[arg-type]
    assert verdict.outcome == UNKNOWN
    assert "does not report its utilization" in verdict.reason


def test_a_process_that_ends_is_still_the_jobs_in_the_sample_after():
    # Its last moments of work are reported when the process is gone from the tree and from NVML's list.
    def ends(index: int, t: float):
        reading = gpu(90, **OUR_MEMORY, since=0, until=3)(index, t)
        return replace(reading, utilization=70) if t == 3 else reading

    verdict = judge(ONE, watched(6, ends))
    assert verdict.gpus[0].active_window == (0, 3)
    assert verdict.gpus[0].mean_utilization == pytest.approx((90 + 90 + 70) / 3)
