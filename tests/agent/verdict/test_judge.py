"""The five outcomes, and which of them are the run's fault."""

import json
from dataclasses import replace

import pytest

from gpuproof.agent.verdict import (
    CPU_ONLY,
    IDLE,
    NO_GPU_EXPECTED,
    PARTLY_USED,
    UNKNOWN,
    USED,
    Expectation,
    Verdict,
    judge,
    used_so_far,
)
from gpuproof.gpu.telemetry import NvmlState, Telemetry
from support.gpu_timelines import JOB, STRANGER, Timeline, gpu, watched

ONE = Expectation(1, "A10G", "instance_type: g5.xlarge", required=True)
FOUR = Expectation(4, "A10G", "instance_type: g5.12xlarge", required=True)
NONE = Expectation()

BUSY = {"mib": 8000, "pids": {JOB: 7900}}
WORKING = gpu(90, **BUSY, since=5)
HELD = gpu(0, **BUSY)
UNTOUCHED = gpu()


def test_a_gpu_that_worked_for_the_job_is_used():
    verdict = judge(ONE, watched(60, WORKING))
    assert verdict.outcome == USED
    assert verdict.reason == "1 of 1 GPU worked, 90% busy on average while in use."
    assert verdict.gpu_requirement_met is True


def test_a_gpu_that_was_held_and_did_nothing_is_idle():
    verdict = judge(ONE, watched(60, HELD))
    assert verdict.outcome == IDLE
    assert verdict.gpu_requirement_met is False
    assert verdict.remedy is not None


def test_a_moment_of_work_when_the_context_opens_is_still_idle():
    def moment(index: int, t: float):
        return (gpu(30, **BUSY) if t == 3 else HELD)(index, t)

    assert judge(ONE, watched(600, moment)).outcome == IDLE


def test_a_job_that_never_opened_a_gpu_is_cpu_only():
    verdict = judge(ONE, watched(60, UNTOUCHED))
    assert verdict.outcome == CPU_ONLY
    assert verdict.reason == "No process of the job opened a GPU. The job ran on the CPU only."
    assert verdict.gpu_requirement_met is False


def test_no_gpu_expected_and_none_used_is_its_own_outcome():
    assert judge(NONE, watched(60, UNTOUCHED)).outcome == NO_GPU_EXPECTED


def test_a_gpu_that_cannot_be_read_leaves_it_unknown():
    verdict = judge(ONE, watched(60, gpu(lost_at=0)))
    assert verdict.outcome == UNKNOWN
    assert "GPU is lost" in verdict.reason
    assert verdict.gpu_requirement_met is None


def test_an_unexpected_gpu_that_worked_is_used():
    verdict = judge(NONE, watched(60, WORKING))
    assert verdict.outcome == USED
    assert verdict.reason.startswith("No GPU was expected, and 1 GPU worked")


def test_an_unexpected_gpu_that_was_only_held_is_not_reported():
    verdict = judge(NONE, watched(60, HELD))
    assert verdict.outcome == NO_GPU_EXPECTED
    assert verdict.gpu_requirement_met is True


def test_a_machine_without_nvml_is_cpu_only_where_a_gpu_was_expected():
    verdict = judge(ONE, watched(60, nvml=NvmlState.MISSING))
    assert verdict.outcome == CPU_ONLY
    assert "No usable GPU" in verdict.reason
    assert verdict.gpu_requirement_met is False


def test_a_machine_without_nvml_is_fine_where_none_was_expected():
    verdict = judge(NONE, watched(60, nvml=NvmlState.MISSING))
    assert verdict.outcome == NO_GPU_EXPECTED
    assert verdict.reason == "No GPU was expected and this machine has none: the job ran on the CPU."


def test_an_nvml_that_does_not_start_leaves_it_unknown():
    telemetry = watched(
        60, nvml=NvmlState.FAILED, nvml_reason="the NVIDIA driver is installed but not loaded"
    )
    verdict = judge(ONE, telemetry)
    assert verdict.outcome == UNKNOWN
    assert "not loaded" in verdict.reason
    assert verdict.gpu_requirement_met is None


def test_a_run_without_a_sample_leaves_it_unknown():
    assert judge(ONE, Telemetry()).outcome == UNKNOWN


def test_two_of_four_idle_gpus_do_not_meet_the_requirement():
    verdict = judge(FOUR, watched(60, WORKING, WORKING, UNTOUCHED, HELD))
    assert verdict.outcome == PARTLY_USED
    assert (verdict.gpus_working, verdict.gpus_expected) == (2, 4)
    assert verdict.reason.startswith("2 of 4 GPUs worked")
    assert "GPUs 2 and 3 did nothing" in verdict.reason
    assert verdict.gpu_requirement_met is False


def test_idle_gpus_that_need_not_work_still_make_it_partly_used():
    verdict = judge(replace(FOUR, required=False), watched(60, WORKING, *[UNTOUCHED] * 3))
    assert (verdict.outcome, verdict.gpu_requirement_met) == (PARTLY_USED, True)


def test_gpus_that_cannot_be_read_beside_one_that_worked_leave_it_unknown():
    verdict = judge(Expectation(2, required=True), watched(60, WORKING, gpu(lost_at=0)))
    assert (verdict.outcome, verdict.gpu_requirement_met) == (UNKNOWN, None)
    assert verdict.reason == "1 of 2 GPUs worked, 90% busy on average while in use; GPU 1 unknown."


def test_a_gpu_that_certainly_did_nothing_decides_whatever_another_one_did():
    verdict = judge(Expectation(3, required=True), watched(60, WORKING, HELD, gpu(lost_at=0)))
    assert (verdict.outcome, verdict.gpu_requirement_met) == (PARTLY_USED, False)


def test_a_version_1_verdict_gets_the_outcome_that_it_would_have_today():
    def read(*gpus: Timeline) -> str:
        document = judge(Expectation(2, required=True), watched(60, *gpus)).to_json()
        return Verdict.from_json({**document, "version": 1, "outcome": USED}).outcome

    assert read(WORKING, WORKING) == USED
    assert read(WORKING, HELD) == PARTLY_USED
    assert read(WORKING, gpu(lost_at=0)) == UNKNOWN


def test_more_gpus_than_expected_may_stay_idle():
    assert judge(ONE, watched(60, UNTOUCHED, WORKING)).gpu_requirement_met is True


def test_fewer_gpus_in_the_machine_than_expected_do_not_meet_the_requirement():
    verdict = judge(FOUR, watched(60, WORKING))
    assert verdict.gpu_requirement_met is False
    assert "4 GPUs expected, and this machine has 1." in verdict.notes


def test_nothing_is_unmet_where_nothing_is_required():
    assert judge(Expectation(1), watched(60, UNTOUCHED)).gpu_requirement_met is True


def test_a_required_gpu_without_a_number_is_one():
    verdict = judge(Expectation(required=True), watched(60, UNTOUCHED))
    assert verdict.outcome == CPU_ONLY
    assert verdict.gpu_requirement_met is False


def test_another_gpu_than_expected_is_noted():
    notes = judge(Expectation(1, "H100", "resources.gpu"), watched(60, WORKING)).notes
    assert notes == ("H100 expected (resources.gpu), and this machine has NVIDIA A10G.",)


def test_nvml_failing_midway_does_not_take_back_what_was_seen():
    verdict = judge(ONE, watched(60, gpu(90, **BUSY, since=5, lost_at=30)))
    assert verdict.outcome == USED
    assert "GPU 0 could not be read after 30 s: GPU is lost (NVML code 15)." in verdict.notes


def test_nvml_failing_before_any_work_leaves_it_unknown():
    verdict = judge(ONE, watched(60, gpu(0, **BUSY, lost_at=30)))
    assert verdict.outcome == UNKNOWN
    assert "could not be read for 31 s" in verdict.reason


def test_nvml_failing_at_the_very_end_does_not_hide_an_idle_gpu():
    assert judge(ONE, watched(600, gpu(0, **BUSY, lost_at=590))).outcome == IDLE


def test_a_run_of_two_seconds_is_judged():
    verdict = judge(ONE, watched(2, gpu(60, **BUSY, since=1, until=1.5), step=0.25))
    assert verdict.outcome == USED
    assert verdict.gpus[0].first_use_s == 1.0


def test_hours_of_preparation_before_some_minutes_of_training_are_use():
    assert judge(ONE, watched(36_000, gpu(80, **BUSY, since=35_700), step=10)).outcome == USED


def test_a_tiny_model_that_keeps_a_big_gpu_at_two_percent_is_use():
    assert judge(ONE, watched(600, gpu(2, **BUSY))).outcome == USED


def test_the_measurements_are_those_of_the_active_window():
    verdict = judge(ONE, watched(100, gpu(80, **BUSY, since=40, until=60)))
    seen = verdict.gpus[0]
    assert seen.first_use_s == 40
    assert seen.active_window == (40, 59)
    assert seen.mean_utilization == pytest.approx(80)
    assert seen.p90_utilization == 80
    assert seen.max_power_w == 200


def test_headroom_counts_everything_on_the_device_and_the_peak_only_the_job():
    seen = judge(ONE, watched(60, WORKING)).gpus[0]
    mib = 1024 * 1024
    assert seen.peak_memory == 7900 * mib
    assert seen.headroom == (23028 - 8000) * mib


def test_a_hidden_gpu_is_named():
    verdict = judge(FOUR, watched(60, WORKING, UNTOUCHED, UNTOUCHED, UNTOUCHED, visible_devices="0,2"))
    assert [entry.hidden for entry in verdict.gpus] == [False, True, False, True]
    assert "CUDA_VISIBLE_DEVICES=0,2 hid GPUs 1 and 3 from the job." in verdict.notes


@pytest.mark.parametrize("value", ["", "-1", "none"])
def test_hiding_every_gpu_is_the_first_thing_to_mend(value: str):
    verdict = judge(ONE, watched(60, UNTOUCHED, visible_devices=value))
    assert verdict.outcome == CPU_ONLY
    assert verdict.remedy == "CUDA_VISIBLE_DEVICES hides every GPU from the job: unset it."


def test_a_gpu_is_also_hidden_by_naming_another_ones_uuid():
    verdict = judge(ONE, watched(60, UNTOUCHED, WORKING, visible_devices="GPU-00000001"))
    assert [entry.hidden for entry in verdict.gpus] == [True, False]


def test_used_so_far_is_false_until_there_was_work():
    assert used_so_far(watched(60, HELD)) is False
    assert used_so_far(watched(60, WORKING)) is True
    assert used_so_far(watched(60, nvml=NvmlState.MISSING)) is False


def test_used_so_far_is_not_false_where_it_is_unknown():
    assert used_so_far(Telemetry()) is None
    assert used_so_far(watched(60, gpu(lost_at=0))) is None
    assert used_so_far(watched(60, nvml=NvmlState.FAILED)) is None


@pytest.mark.parametrize(
    "verdict",
    [
        judge(FOUR, watched(60, WORKING, UNTOUCHED, HELD, gpu(lost_at=20))),
        judge(NONE, watched(60, nvml=NvmlState.MISSING)),
        judge(ONE, watched(60, gpu(50, mib=9000, pids={JOB: 4000, STRANGER: 5000}))),
    ],
    ids=["four GPUs", "no GPU", "shared"],
)
def test_a_verdict_survives_json(verdict: Verdict):
    document = json.loads(json.dumps(verdict.to_json()))
    assert document["version"] == 2
    assert Verdict.from_json(document).to_json() == document


def test_keys_of_a_later_writer_are_passed_over():
    document = {**judge(ONE, watched(60, WORKING)).to_json(), "colour": "green"}
    assert Verdict.from_json(document).outcome == USED


@pytest.mark.parametrize("document", [{"version": 99}, {}, {"version": 1, "outcome": "used"}])
def test_an_invalid_verdict_is_refused(document: dict[str, object]):
    with pytest.raises(ValueError, match=r"verdict\.json"):
        Verdict.from_json(document)
