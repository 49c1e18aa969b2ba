"""What a busy GPU did: work that looks like none must stay work, and what is none must be told only where it is certain."""

from dataclasses import replace

import pytest

from gpuproof.agent.verdict import (
    OCCUPIED,
    PARTLY_USED,
    USED,
    Expectation,
    judge,
    used_so_far,
)
from gpuproof.agent.verdict.activity import activity
from gpuproof.agent.verdict.evidence import (
    COPY_BOUND,
    COPYING,
    FEW_MULTIPROCESSORS,
    INFERRED,
    LAUNCH_BOUND,
    MEASURED,
    UNDECIDED,
    WAITING,
    WORKING,
    Activity,
    Intensity,
    Steps,
    StepTimes,
    Straggler,
)
from gpuproof.gpu.telemetry import Work
from support.gpu_timelines import JOB, SPINNING, STRANGER, TRAINING, Timeline, gpu, watched

H100 = 132
BUSY = {"mib": 8000, "pids": {JOB: 7900}}
ONE = Expectation(1, required=True)

QUIET = Intensity(
    "gpm",
    60.0,
    busy=1.0,
    sm_active=1 / H100,
    sm_occupancy=1 / (H100 * 64),
    tensor_active=0.0,
    fp64_active=0.0,
    fp32_active=0.0,
    fp16_active=0.0,
    integer_active=0.006 / H100,
    dram_active=0.0,
    pcie_bytes_per_s=6e6,
    nvlink_bytes_per_s=0.0,
)
"""One spinning thread."""
NO_COUNTERS = Intensity("counters", 60.0, busy=1.0, power_share=0.08, memory_utilization=0.0)


def work(utilization: float = 100.0, seconds: float = 60.0) -> Work:
    """A GPU that was busy for the whole time in use."""
    return Work(busy_s=seconds * utilization / 100, mean_utilization=utilization)


def found(
    intensity: Intensity, utilization: float = 100.0, multiprocessors: int | None = H100, **more: object
) -> Activity:
    did = activity(
        intensity,
        work(utilization, intensity.seconds),
        multiprocessors=multiprocessors,
        **more,  # pyright: ignore[reportArgumentType]
    )
    assert did is not None
    return did


def on_active(share: float, sm_active: float) -> float:
    """A share of the cycles of the active multiprocessors, as the counters of the whole GPU have it."""
    return share * sm_active


class TestWorkThatLooksLikeNone:
    """Near misses: small, real work on a large GPU."""

    @pytest.mark.parametrize(
        ("intensity", "utilization"),
        [
            # A small LSTM at batch size 1: a vector times a small matrix in each kernel, weights in the L2 cache.
            (
                replace(
                    QUIET,
                    busy=0.9,
                    sm_active=0.012,
                    fp32_active=on_active(1.2e-3, 0.012),
                    integer_active=on_active(3e-3, 0.012),
                    dram_active=2e-4,
                    pcie_bytes_per_s=3e7,
                ),
                90.0,
            ),
            # The same as one persistent kernel of one block: no gaps at all.
            (replace(QUIET, fp32_active=on_active(0.05, 1 / H100)), 100.0),
            # The same as a graph that is replayed without a pause, in kernels of one or two blocks.
            (replace(QUIET, sm_active=1.3 / H100, fp32_active=on_active(1.2e-3, 1.3 / H100)), 98.0),
            # Inference at batch size 1 of a small network on the tensor cores.
            (
                replace(
                    QUIET,
                    sm_active=0.05,
                    tensor_active=on_active(2e-3, 0.05),
                    fp16_active=on_active(1e-3, 0.05),
                    dram_active=0.01,
                ),
                95.0,
            ),
            # Reinforcement learning: networks of 64 x 64, thousands of launches a second.
            (
                replace(
                    QUIET,
                    busy=0.6,
                    sm_active=0.008,
                    fp32_active=on_active(6e-3, 0.008),
                    pcie_bytes_per_s=4e7,
                ),
                60.0,
            ),
            # Additions of one element: hardly any instruction computes, but its kernels leave gaps.
            (
                replace(QUIET, busy=0.42, sm_active=0.4 / H100, fp32_active=on_active(8e-5, 0.4 / H100)),
                42.0,
            ),
            # One block that sorts or hashes, with integers only.
            (replace(QUIET, integer_active=on_active(0.4, 1 / H100)), 100.0),
        ],
        ids=["lstm", "persistent lstm", "graph", "batch size 1", "small networks", "one element", "integers"],
    )
    def test_is_launch_bound_and_never_occupied(self, intensity: Intensity, utilization: float):
        did = found(intensity, utilization)
        assert (did.kind, did.certainty) == (LAUNCH_BOUND, MEASURED)
        assert not did.is_no_work
        assert "too small or too short" in did.sentence

    @pytest.mark.parametrize(
        "intensity",
        [
            # Embeddings, copies within the GPU and batch size 1 of a large language model are bound by the memory.
            replace(QUIET, sm_active=0.15, dram_active=0.7),
            replace(QUIET, sm_active=0.95, dram_active=0.85, tensor_active=1e-6),
            # Training at 5 % of the time, while the input is prepared.
            replace(QUIET, busy=0.08, sm_active=0.05, fp32_active=0.01),
        ],
        ids=["few multiprocessors", "decoding", "input-bound"],
    )
    def test_bound_by_memory_or_input_is_working(self, intensity: Intensity):
        utilization = 100 * (intensity.busy or 0)
        assert found(intensity, utilization).kind == WORKING

    def test_counters_that_count_nothing_at_all_are_no_evidence(self):
        silent = replace(QUIET, sm_active=0.0, integer_active=0.0, pcie_bytes_per_s=0.0)
        did = found(silent)
        assert (did.kind, did.working_share) == (UNDECIDED, None)
        assert found(replace(silent, power_share=0.6)).kind == WORKING
        assert not found(replace(QUIET, integer_active=0.0)).is_no_work

    def test_a_single_second_of_counters_decides_nothing(self):
        did = found(replace(QUIET, seconds=2.0))
        assert (did.kind, did.certainty) == (UNDECIDED, UNDECIDED)

    def test_few_readings_of_counters_in_a_long_time_decide_nothing(self):
        """As of an exporter that measures every 30 s."""
        assert found(replace(QUIET, seconds=60.0, counted_s=2.0)).kind == UNDECIDED
        assert not found(replace(QUIET, seconds=600.0, counted_s=20.0)).is_no_work

    def test_a_spin_that_pauses_is_not_certain(self):
        assert not found(replace(QUIET, busy=0.5, sm_active=0.5 / H100), 50.0).is_no_work

    def test_training_for_a_moment_of_an_hour_of_waiting_is_work(self):
        # One second at 40 % of the tensor cores, in an hour in which a kernel spins on 16 multiprocessors.
        seconds, sm_active = 3600.0, 16 / H100
        waited = replace(QUIET, seconds=seconds, sm_active=sm_active, tensor_active=0.4 / seconds)
        assert not found(waited, has_peers=True).is_no_work

    def test_a_minute_of_training_in_a_week_of_waiting_is_work(self):
        seconds, sm_active = 7 * 86_400.0, 16 / H100
        waited = replace(QUIET, seconds=seconds, sm_active=sm_active, tensor_active=0.1 * 60 / seconds)
        assert not found(waited, has_peers=True).is_no_work

    def test_counters_of_a_shared_gpu_are_not_the_jobs(self):
        assert not found(QUIET, is_complete=False).is_no_work

    def test_communication_is_not_waiting(self):
        exchanging = replace(QUIET, sm_active=0.15, nvlink_bytes_per_s=2e11, dram_active=0.1)
        assert not found(exchanging, has_peers=True).is_no_work


class TestNoWork:
    def test_a_spinning_thread_occupies_one_multiprocessor(self):
        did = found(QUIET)
        assert (did.kind, did.certainty) == (FEW_MULTIPROCESSORS, MEASURED)
        assert did.sentence == (
            "busy 100%, working 1%: a kernel that computes nothing occupies 1 of 132 multiprocessors"
        )
        assert did.is_no_work

    def test_copies_from_the_host_occupy_none(self):
        did = found(
            replace(QUIET, sm_active=0.0, integer_active=0.0, pcie_bytes_per_s=2.5e10, dram_active=0.01)
        )
        assert (did.kind, did.certainty) == (COPYING, MEASURED)
        assert did.sentence == "busy 100%, working 0%: only copies, 25.0 GB/s over PCIe"

    def test_a_rank_that_waits_in_nccl_does_no_work(self):
        did = found(replace(QUIET, sm_active=16 / H100, sm_occupancy=0.03), has_peers=True)
        assert (did.kind, did.certainty) == (WAITING, MEASURED)
        assert did.sentence == (
            "busy 100%, working 12%: waiting for other ranks in collective operations, which spin"
        )

    def test_many_waiting_multiprocessors_are_not_taken_for_work_where_integers_are_not_counted(self):
        did = found(replace(QUIET, sm_active=0.3, integer_active=None), has_peers=True)
        assert (did.kind, did.certainty) == (WAITING, INFERRED)

    def test_a_rank_that_polls_over_pcie_probably_waits(self):
        did = found(replace(QUIET, sm_active=16 / H100, pcie_bytes_per_s=6e8), has_peers=True)
        assert (did.kind, did.certainty) == (WAITING, INFERRED)

    def test_a_spin_that_multiplies_integers_is_probably_none_and_not_certain(self):
        # DCGM counts integer multiplications as FP32.
        did = found(replace(QUIET, fp32_active=on_active(0.006, 1 / H100)))
        assert (did.kind, did.certainty) == (FEW_MULTIPROCESSORS, INFERRED)

    @pytest.mark.parametrize(
        "missing", ["integer_active", "tensor_active", "dram_active"], ids=lambda name: name
    )
    def test_without_all_counters_it_is_not_certain(self, missing: str):
        did = found(replace(QUIET, **{missing: None}))
        assert (did.kind, did.certainty) == (FEW_MULTIPROCESSORS, INFERRED)

    def test_without_the_number_of_multiprocessors_it_is_not_certain(self):
        assert not found(QUIET, multiprocessors=None).is_no_work


class TestWithoutCounters:
    """T4, V100, A10G and L4: power and memory utilization."""

    def test_little_power_for_long_is_probably_no_work_and_never_certain(self):
        did = found(NO_COUNTERS, multiprocessors=80)
        assert (did.kind, did.certainty) == (FEW_MULTIPROCESSORS, INFERRED)
        assert did.working_share is None
        assert did.sentence == (
            "busy 100%: probably a few multiprocessors or very short kernels (power only 8% above idle)"
        )

    @pytest.mark.parametrize(
        "intensity",
        [
            replace(NO_COUNTERS, seconds=20.0),
            replace(NO_COUNTERS, power_share=None),
            replace(NO_COUNTERS, power_share=0.2),
        ],
        ids=["too short", "no power", "some power"],
    )
    def test_what_has_several_explanations_is_undecided(self, intensity: Intensity):
        assert found(intensity).kind == UNDECIDED

    def test_gaps_between_kernels_are_not_a_spin(self):
        assert found(NO_COUNTERS, 60.0).kind == UNDECIDED

    def test_much_power_or_much_memory_traffic_is_work(self):
        assert found(replace(NO_COUNTERS, power_share=0.6)).kind == WORKING
        assert found(replace(NO_COUNTERS, memory_utilization=0.5)).kind == WORKING

    def test_much_traffic_over_pcie_is_probably_copies(self):
        assert found(replace(NO_COUNTERS, pcie_bytes_per_s=1.2e10)).kind == COPYING

    def test_other_ranks_are_probably_waited_for(self):
        assert found(NO_COUNTERS, has_peers=True).kind == WAITING


class TestSteps:
    STEPS = Steps(
        StepTimes(100, 60.0, {"communication": 36.0, "forward": 24.0}),
        straggler=Straggler(5, "algo-3", 36.0, "input", "...", share=0.6),
    )

    def test_name_the_share_and_whom_the_gpu_waited_for(self):
        training = replace(QUIET, sm_active=0.4, tensor_active=0.2)
        did = found(training, steps=self.STEPS, has_peers=True)
        assert did.kind == WORKING
        assert did.sentence == (
            "busy 100%, working 40%: waiting in collective operations 60% of the time for rank 5 on algo-3"
        )
        assert not did.is_no_work

    def test_name_it_without_counters_too(self):
        did = found(NO_COUNTERS, steps=replace(self.STEPS, straggler=None), has_peers=True)
        assert did.sentence == "busy 100%: waiting in collective operations 60% of the time"

    def test_hardly_any_communication_changes_nothing(self):
        steps = replace(self.STEPS, total=StepTimes(100, 60.0, {"communication": 6.0}))
        assert found(replace(QUIET, sm_active=0.9, tensor_active=0.4), steps=steps).kind == WORKING

    def test_are_in_the_reason(self):
        verdict = judge(ONE, watched(60, WORK), self.STEPS)
        assert verdict.reason == (
            "1 of 1 GPU worked, 98% busy on average while in use, 85% of its multiprocessors working, "
            "waiting in collective operations 60% of the time for rank 5 on algo-3."
        )


SPIN = gpu(100, **BUSY, counters=SPINNING)
WORK = gpu(98, **BUSY, counters=TRAINING)
SLOW = gpu(98, **BUSY, counters=replace(TRAINING, sm_active=0.11, tensor_active=0.01, dram_active=0.05))


class TestOutcome:
    def test_a_gpu_that_only_spins_is_occupied(self):
        verdict = judge(ONE, watched(60, SPIN))
        assert (verdict.outcome, verdict.gpu_requirement_met) == (OCCUPIED, False)
        assert verdict.reason == (
            "GPU 0 did no work (busy 100%, working 1%: a kernel that computes nothing occupies 1 of 80 multiprocessors)."
        )
        assert verdict.remedy is not None
        assert (verdict.gpus[0].worked, verdict.gpus[0].touched) == (False, True)
        assert used_so_far(watched(60, SPIN)) is False

    @pytest.mark.parametrize(
        ("timeline", "kind"),
        [
            (gpu(98, **BUSY, counters=TRAINING, until=4.0), WORKING),
            (gpu(98, **BUSY, counters=TRAINING, until=1.5), WORKING),
            (gpu(100, **BUSY, counters=replace(TRAINING, busy=1.0)), WORKING),
            (
                gpu(9, **BUSY, counters=replace(TRAINING, busy=0.09, sm_active=0.06, dram_active=0.03)),
                WORKING,
            ),
            (
                gpu(42, **BUSY, counters=replace(SPINNING, busy=0.42, sm_active=0.4 / 80, fp32_active=4e-7)),
                LAUNCH_BOUND,
            ),
        ],
        ids=["late idle", "short burst", "graph replay", "input-bound", "kernels on one element"],
    )
    def test_programs_that_work_are_used(self, timeline: Timeline, kind: str):
        verdict = judge(ONE, watched(24, timeline))
        assert (verdict.outcome, verdict.gpu_requirement_met) == (USED, True)
        did = verdict.gpus[0].activity
        assert did is not None
        assert did.kind == kind

    def test_endless_copies_are_occupied(self):
        copies = replace(SPINNING, sm_active=0.0, integer_active=0.0, pcie_bytes_per_s=2.5e10)
        verdict = judge(ONE, watched(24, gpu(100, **BUSY, counters=copies)))
        assert verdict.outcome == OCCUPIED
        assert verdict.reason == (
            "GPU 0 did no work (busy 100%, working 0%: only copies, 25.0 GB/s over PCIe)."
        )

    def test_a_gpu_that_trained_and_then_spins_is_used(self):
        def timeline(index: int, t: float):
            return (WORK if t < 20 else SPIN)(index, t)

        assert judge(ONE, watched(120, timeline)).outcome == USED

    def test_one_occupied_of_two_gpus_makes_it_partly_used(self):
        verdict = judge(Expectation(2, required=True), watched(60, WORK, SPIN))
        assert verdict.outcome == PARTLY_USED
        assert verdict.reason == (
            "1 of 2 GPUs worked, 98% busy on average while in use, 85% of its multiprocessors working; "
            "GPU 1 did no work (busy 100%, working 1%: waiting for other ranks in collective operations, which spin)."
        )

    def test_a_gpu_that_waits_for_others_may_not_be_stopped_for_it(self):
        assert used_so_far(watched(60, SPIN), has_peers=True) is None
        assert used_so_far(watched(60, SPIN, SPIN)) is None

    def test_an_occupied_gpu_beside_an_idle_one_is_occupied(self):
        verdict = judge(Expectation(2, required=True), watched(60, SPIN, gpu(0, **BUSY)))
        assert verdict.outcome == OCCUPIED
        assert verdict.reason.endswith("; GPU 1 did nothing for the job.")

    def test_an_occupied_gpu_that_was_not_asked_for_is_named_and_no_fault(self):
        verdict = judge(Expectation(), watched(60, SPIN))
        assert (verdict.outcome, verdict.gpu_requirement_met) == (OCCUPIED, True)

    def test_a_spin_without_counters_is_used_with_a_note(self):
        quiet = gpu(100, **BUSY, power_w=35.0)
        verdict = judge(ONE, watched(60, quiet))
        assert (verdict.outcome, verdict.gpu_requirement_met) == (USED, True)
        assert any("probably" in note for note in verdict.notes)

    def test_a_spin_of_a_gpu_that_could_not_be_read_for_long_is_not_certain(self):
        def timeline(index: int, t: float):
            return (gpu(lost_at=0) if 10 < t < 40 else SPIN)(index, t)

        verdict = judge(ONE, watched(60, timeline))
        assert verdict.outcome == USED
        assert verdict.gpus[0].activity is not None
        assert verdict.gpus[0].activity.is_doubtful

    def test_a_spin_of_another_process_is_not_the_jobs(self):
        shared = gpu(100, mib=9000, pids={JOB: 400, STRANGER: 8000}, counters=SPINNING)
        assert judge(ONE, watched(60, shared)).outcome != OCCUPIED

    def test_kernels_too_small_for_the_gpu_are_a_bottleneck(self):
        verdict = judge(ONE, watched(60, SLOW))
        assert verdict.outcome == USED
        (bottleneck,) = verdict.bottlenecks
        assert bottleneck.kind == "launch-bound"
        assert bottleneck.sentence.startswith(
            "busy 98%, working 11%: its kernels are too small or too short for the GPU"
        )


COPIES = replace(TRAINING, sm_active=0.12, dram_active=0.05, pcie_bytes_per_s=6e9)
"""Kernels that wait for their input, which is copied from the host."""
BUSY_COUNTERS = replace(QUIET, sm_active=0.85, fp32_active=0.1, tensor_active=0.3)


class TestCopyBound:
    def test_kernels_that_wait_for_copies_are_used_and_a_bottleneck(self):
        verdict = judge(ONE, watched(60, gpu(98, **BUSY, counters=COPIES)))
        assert verdict.outcome == USED
        (bottleneck,) = verdict.bottlenecks
        assert bottleneck.kind == "copy"
        assert bottleneck.sentence.startswith(
            "busy 98%, working 12%: its kernels probably wait for copies, 6.0 GB/s over PCIe: copy while the GPU computes"
        )

    def test_traffic_of_a_gpu_that_computes_is_no_bottleneck(self):
        assert found(replace(BUSY_COUNTERS, pcie_bytes_per_s=2e10)).kind == WORKING

    def test_little_traffic_is_not_blamed(self):
        assert found(replace(BUSY_COUNTERS, sm_active=0.12, pcie_bytes_per_s=1e9)).kind == LAUNCH_BOUND

    def test_gradients_of_other_ranks_are_no_copies_from_the_host(self):
        waits = replace(BUSY_COUNTERS, sm_active=0.12, pcie_bytes_per_s=6e9)
        assert (found(waits).kind, found(waits, has_peers=True).kind) == (COPY_BOUND, LAUNCH_BOUND)

    def test_steps_show_that_what_looks_like_copies_only_trains(self):
        copies = replace(NO_COUNTERS, pcie_bytes_per_s=6e9)
        steps = Steps(StepTimes(100, 60.0, {"forward": 60.0}))
        assert (found(copies).kind, found(copies, steps=steps).kind) == (COPYING, COPY_BOUND)


def test_a_timeline_without_counters_is_judged_as_before():
    timeline: Timeline = gpu(90, **BUSY)
    assert judge(ONE, watched(60, timeline)).reason == "1 of 1 GPU worked, 90% busy on average while in use."
