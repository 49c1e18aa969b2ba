"""How evenly GPUs worked, and how long hosts waited for each other."""

from dataclasses import replace

from gpuproof.agent.verdict import Expectation, GpuVerdict, HostVerdict, judge
from gpuproof.agent.verdict.balance import imbalance, skews
from support.gpu_timelines import JOB, gpu, watched

BUSY = {"mib": 8000, "pids": {JOB: 7900}}


def worked(*seconds: float, host: str | None = None) -> list[GpuVerdict]:
    return [GpuVerdict(index, worked=True, busy_s=busy, host=host) for index, busy in enumerate(seconds)]


def host(number: int, started: float, ended: float, first_use_s: float | None = 1.0) -> HostVerdict:
    return HostVerdict(f"algo-{number}", "used", "", started=started, ended=ended, first_use_s=first_use_s)


def test_a_gpu_with_less_than_half_of_the_others_work_is_named():
    uneven = imbalance(worked(600, 590, 40, 610))
    assert uneven is not None
    assert uneven.sentence.startswith("GPU 2 worked for 40 s, and the other 3 GPUs for 10 min (median)")
    assert uneven.numbers == {"gpu": 2, "host": None, "busy_s": 40, "median_busy_s": 600, "gpus": 1}


def test_the_host_of_the_gpu_is_named():
    uneven = imbalance([*worked(600, 600, host="algo-1"), *worked(600, 100, host="algo-2")])
    assert uneven is not None
    assert uneven.sentence.startswith("GPU 1 of algo-2 worked for 100 s")


def test_of_two_gpus_one_can_be_behind_the_other():
    assert imbalance(worked(600, 100)) is not None


def test_nothing_is_said_without_certainty():
    assert imbalance(worked(600, 310)) is None, "more than half"
    assert imbalance(worked(600)) is None, "one GPU"
    assert imbalance(worked(600, 600, 10, 10)) is None, "which half is the slow one?"
    assert imbalance(worked(5, 5, 1)) is None, "too short"
    assert imbalance([*worked(600, 600), GpuVerdict(2, worked=False)]) is None, (
        "it did nothing, which is said elsewhere"
    )


def test_an_uneven_host_says_so_in_its_own_verdict():
    verdict = judge(Expectation(2), watched(100, gpu(90, **BUSY), gpu(90, **BUSY, until=20)))
    assert [bottleneck.kind for bottleneck in verdict.bottlenecks][-1] == "imbalance"


def test_hosts_that_start_and_end_together_waited_for_nobody():
    assert skews([host(1, 1000, 2000), host(2, 1020, 2010)], 1000) == []


def test_a_late_host_is_named_with_the_time_that_the_others_waited():
    start, end = skews([host(1, 1000, 2000), host(2, 1055, 2100)], 1000)
    assert start.sentence == (
        "algo-2 started the script 55 s after algo-1, by the hosts' clocks: hosts that work together wait for the last one."
    )
    assert start.numbers == {"seconds": 55, "first_host": "algo-1", "last_host": "algo-2"}
    assert end.sentence.startswith("algo-1 ended 100 s before algo-2")


def test_a_late_first_use_is_reported_where_scripts_started_together():
    (late,) = skews([host(1, 1000, 2000, first_use_s=10), host(2, 1000, 2000, first_use_s=200)], 1000)
    assert late.sentence.startswith("algo-2 first used a GPU 3 min 10 s after algo-1")


def test_a_minute_matters_in_a_run_of_days_and_a_second_in_no_run():
    assert skews([host(1, 0, 100_000), host(2, 61, 100_000)], 100_000)
    assert not skews([host(1, 0, 20), host(2, 2, 20)], 20)


def test_without_times_nothing_is_said():
    assert skews([HostVerdict("algo-1", "used", ""), host(2, 0, 10)], 10) == []


def test_waiting_that_each_host_measured_itself_needs_no_comparison_of_clocks():
    early = replace(host(1, 1000, 2000), start_wait_s=95.0, end_wait_s=0.0)
    late = replace(host(2, 1000, 2000), start_wait_s=0.0, end_wait_s=130.0)
    start, end = skews([early, late], 1000)
    assert start.sentence == "algo-1 waited 95 s for algo-2 before the script started."
    assert end.sentence == "algo-2 waited 2 min 10 s for algo-1 after its script had ended."


def test_a_host_that_waited_only_briefly_is_not_reported():
    early = replace(host(1, 1000, 2000), start_wait_s=4.0, end_wait_s=0.0)
    late = replace(host(2, 1000, 2000), start_wait_s=0.0, end_wait_s=4.0)
    assert skews([early, late], 60) == []


def test_clocks_do_not_matter_where_hosts_measured_their_waiting():
    early = replace(host(1, 1000, 2000, first_use_s=10.0), start_wait_s=1.0, end_wait_s=0.0)
    late = replace(host(2, 5000, 6000, first_use_s=200.0), start_wait_s=0.0, end_wait_s=1.0)
    (use,) = skews([early, late], 1000)
    assert use.sentence.startswith("algo-2 first used a GPU 3 min 10 s after algo-1: hosts that work")
