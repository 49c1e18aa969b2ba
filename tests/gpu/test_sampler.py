"""The sampler's thread, over the stub NVML with a clock that the test moves."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuproof.agent.verdict import CPU_ONLY, IDLE, UNKNOWN, USED, Expectation, judge
from gpuproof.gpu import nvml, sampler
from gpuproof.gpu.intensity.dcgm import WHOLE_GPU, Dcgm, Entity, Fields
from gpuproof.gpu.nvml import MIB
from gpuproof.gpu.sampler import Sampler, next_sample_time
from gpuproof.gpu.telemetry import SENSORS, NvmlState, Sample, Telemetry
from support.nvml_stub import DRIVER_NOT_LOADED, GPU_IS_LOST, NOT_SUPPORTED, Scenario

ME = os.getpid()
INIT = 1
ONE = Expectation(1, "A10G", "--gpu A10G", required=True)


class Time:
    """A clock that advances only while the sampler waits, together with the scenario's clock."""

    def __init__(self, seconds: float, scenario: Scenario | None = None) -> None:
        self.now = 0.0
        self._end = seconds
        self._scenario = scenario
        self._over = threading.Event()
        self._stopping = threading.Event()

    def clock(self) -> float:
        return self.now

    def wait(self, seconds: float) -> None:
        self.now += seconds
        if self._scenario is not None:
            self._scenario.now(self.now)
        if self.now >= self._end - 1e-6:
            self._over.set()
            self._stopping.wait(300)

    def run(self, watching: Sampler) -> Telemetry:
        """Lets the time pass to its end and stops."""
        # At the end the sampler stays in `wait` until it is stopped.
        self._stopping = watching._stopping
        watching.start()
        assert self._over.wait(300)
        return watching.stop()


def watch(
    scenario: Scenario | None,
    seconds: float,
    on_sample: Callable[[Sample], None] | None = None,
    *,
    sees_host_pids: bool = True,
    open_dcgm: Callable[[], Dcgm | None] = lambda: None,
) -> Telemetry:
    if scenario is not None:
        scenario.now(0)
    time = Time(seconds, scenario)
    watching = Sampler(
        ME,
        on_sample,
        sees_host_pids=sees_host_pids,
        clock=time.clock,
        wait=time.wait,
        visible_devices=None,
        open_dcgm=open_dcgm,
    )
    return time.run(watching)


def test_a_gpu_that_the_tree_works_on_is_used(scenario: Scenario):
    scenario.gpu(0).at(5, util=90, memory_mib=8000, power_w=250, processes={ME: 7900})
    telemetry = watch(scenario, 20)
    verdict = judge(ONE, telemetry)
    assert verdict.outcome == USED
    assert verdict.gpus[0].judged_by == "processes"
    assert verdict.gpus[0].first_use_s == 5
    assert telemetry.driver_version == "550.54.15"


def test_the_series_have_the_same_steps_also_where_a_gpu_is_lost(scenario: Scenario):
    scenario.gpu(0).at(0, temperature_c=40).at(
        5, util=90, memory_mib=8000, power_w=250, temperature_c=71, processes={ME: 7900}
    )
    scenario.at(200, error=15)
    telemetry = watch(scenario, 300)
    (gpu,) = judge(ONE, telemetry).gpus
    series = gpu.series
    assert {len(getattr(series, name)) for name in SENSORS} == {len(series.values)}
    busy, lost = int(100 / series.step_s), int(250 / series.step_s)
    assert (series.values[busy], series.memory[busy]) == (90, 8000 * MIB)
    assert (series.power_w[busy], series.temperature_c[busy]) == (250, 71)
    assert {getattr(series, name)[lost] for name in ("values", *SENSORS)} == {None}
    assert telemetry.gpus[0].device.series.temperature_c == series.temperature_c


@pytest.mark.parametrize(
    ("recording", "seconds", "outcome", "first_use", "busy"),
    [("train", 22, USED, 10, 11), ("hold", 16, IDLE, None, 0), ("late_idle", 25, USED, 5, 4)],
)
def test_recorded_answers_of_an_h200(
    scenario: Scenario, recording: str, seconds: float, outcome: str, first_use: float | None, busy: float
):
    scenario.gpu(0, "NVIDIA H200", memory_mib=143771, power_limit_w=700).replay(recording, ME)
    verdict = judge(Expectation(1, required=True), watch(scenario, seconds))
    gpu = verdict.gpus[0]
    assert (verdict.outcome, gpu.touched, gpu.judged_by) == (outcome, True, "processes")
    assert gpu.busy_s == pytest.approx(busy, abs=1)
    assert gpu.first_use_s == (first_use and pytest.approx(first_use, abs=1.1))


def test_a_gpu_of_another_process_is_not_the_trees(scenario: Scenario):
    scenario.gpu(0).at(5, util=90, memory_mib=8000, processes={INIT: 7900})
    assert judge(ONE, watch(scenario, 20)).outcome == CPU_ONLY


def test_a_shared_gpu_is_attributed_by_what_each_process_used(scenario: Scenario):
    scenario.gpu(0).at(5, util=90, memory_mib=8000, processes={INIT: (4000, 90), ME: (4000, 0)})
    assert judge(ONE, watch(scenario, 20)).outcome == IDLE


def test_a_container_is_judged_by_the_device(scenario: Scenario):
    scenario.gpu(0).at(5, util=90, memory_mib=8000)
    verdict = judge(ONE, watch(scenario, 20, sees_host_pids=False))
    assert verdict.outcome == USED
    assert verdict.gpus[0].judged_by == "device counters"


def test_two_of_four(scenario: Scenario):
    scenario.gpus(4)
    for index in (0, 2):
        scenario.at(3, index, util=80, memory_mib=5000, processes={ME: 4900})
    verdict = judge(Expectation(4, required=True), watch(scenario, 20))
    assert [gpu.worked for gpu in verdict.gpus] == [True, False, True, False]
    assert verdict.gpu_requirement_met is False


def test_a_gpu_lost_midway_keeps_what_was_seen_before(scenario: Scenario):
    scenario.gpu(0).at(2, util=90, memory_mib=8000, processes={ME: 7900}).at(10, error=GPU_IS_LOST)
    telemetry = watch(scenario, 20)
    assert judge(ONE, telemetry).outcome == USED
    assert telemetry.gpus[0].lost_at_s == 10


def test_a_driver_that_goes_before_the_job_began_to_work_leaves_it_unknown(scenario: Scenario):
    scenario.gpu(0).at(8, util=90, memory_mib=8000, processes={ME: 7900}).fail("*", DRIVER_NOT_LOADED, at=5)
    assert judge(ONE, watch(scenario, 20)).outcome == UNKNOWN


def test_a_driver_that_is_not_loaded_leaves_it_unknown(scenario: Scenario):
    scenario.fail("nvmlInit", DRIVER_NOT_LOADED)
    telemetry = watch(scenario, 5)
    assert telemetry.nvml == NvmlState.FAILED
    assert judge(ONE, telemetry).outcome == UNKNOWN


def test_without_nvml_the_processes_are_still_watched(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sampler, "library_present", lambda: False)
    telemetry = watch(None, 5)
    assert telemetry.nvml == NvmlState.MISSING
    assert judge(ONE, telemetry).outcome == CPU_ONLY
    assert telemetry.gpus == ()
    if Path("/proc").exists():
        assert telemetry.tree is not None
        assert telemetry.tree.peak_rss > 0


def test_a_short_run_leaves_enough_samples(scenario: Scenario):
    scenario.gpu(0).at(0.4, util=70, memory_mib=800, processes={ME: 700}).at(1.1)
    telemetry = watch(scenario, 2)
    assert telemetry.samples >= 8
    assert judge(ONE, telemetry).outcome == USED


def test_a_function_that_nvml_lacks_costs_only_its_own_number(scenario: Scenario):
    scenario.gpu(0).at(1, util=70, memory_mib=800, processes={ME: 700})
    scenario.fail("nvmlDeviceGetPowerUsage", NOT_SUPPORTED)
    verdict = judge(ONE, watch(scenario, 10))
    assert verdict.outcome == USED
    assert verdict.gpus[0].mean_power_w is None


def test_each_sample_is_handed_on(scenario: Scenario):
    scenario.gpu(0)
    seen: list[Sample] = []
    telemetry = watch(scenario, 10, seen.append)
    assert len(seen) == telemetry.samples
    assert (seen[0].t, seen[0].dt) == (0, 0)
    assert [sample.t for sample in seen] == sorted(sample.t for sample in seen)
    assert all(len(sample.gpus) == 1 for sample in seen)


def test_an_exception_in_the_callback_does_not_end_the_watch(scenario: Scenario):
    def fail(sample: Sample) -> None:
        raise OSError("disk full")

    telemetry = watch(scenario.gpu(0), 10, fail)
    assert telemetry.samples > 10
    assert telemetry.problems == ("handling a sample failed: OSError: disk full",)


def test_evidence_so_far_can_be_had_from_the_sampler_s_own_thread(scenario: Scenario):
    seen: list[int] = []
    time = Time(5, scenario.gpu(0).now(0))
    watching = Sampler(
        ME, lambda _: seen.append(watching.telemetry().samples), clock=time.clock, wait=time.wait
    )
    time.run(watching)
    assert seen[:3] == [1, 2, 3]


def test_stopping_before_the_start_and_twice_is_allowed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sampler, "library_present", lambda: False)
    assert Sampler(ME).stop().nvml == NvmlState.NOT_QUERIED
    watching = Sampler(ME)
    watching.start()
    assert watching.stop() == watching.stop()


def test_pynvml_is_not_imported_where_there_is_no_driver(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sampler, "library_present", lambda: False)
    monkeypatch.setattr(nvml.Nvml, "open", lambda: pytest.fail("NVML was opened"))
    watching = Sampler(ME)
    watching.start()
    assert watching.stop().problems == ()


def test_looks_come_on_a_fixed_grid_and_four_times_as_often_at_first():
    times = [0.0]
    while times[-1] < 6:
        # A little late each time: the grid must not move with it.
        times.append(next_sample_time(times[-1] + 0.03, 1.0))
    assert times == [*(quarter / 4 for quarter in range(12)), 3, 4, 5, 6]


def test_a_sample_that_took_too_long_skips_the_missed_ones():
    assert next_sample_time(17.4, 1.0) == 18
    assert next_sample_time(17.9999, 1.0) == 19


def test_a_script_that_works_at_once_is_not_taken_for_another_process(scenario: Scenario):
    # In a container, where process ids cannot be matched.
    scenario.gpu(0).at(0.01, util=90, memory_mib=8000, power_w=250, processes={90210: 7900})
    scenario.now(0)
    time = Time(20, scenario)
    watching = Sampler(ME, sees_host_pids=False, clock=time.clock, wait=time.wait)
    assert watching.read_first(60)
    time.now = 0.02
    scenario.now(0.02)
    verdict = judge(ONE, time.run(watching))
    assert verdict.outcome == USED
    assert verdict.gpus[0].judged_by == "device counters"


def test_the_time_that_the_driver_takes_to_open_does_not_count(scenario: Scenario):
    scenario.now(0)
    time = Time(20, scenario)
    taken: list[Sample] = []
    watching = Sampler(ME, taken.append, sees_host_pids=True, clock=time.clock, wait=time.wait)
    assert watching.read_first(60)
    time.now = 4.0
    time._end = 14.0
    assert time.run(watching).seconds == pytest.approx(10.0)
    assert taken[0].t == 0.0


def test_a_first_reading_without_a_start_ends_with_stop(scenario: Scenario):
    scenario.now(0)
    watching = Sampler(ME, sees_host_pids=True)
    assert watching.read_first(60)
    assert watching.stop().samples >= 1


def test_a_hopper_gpu_has_measured_intensity(scenario: Scenario):
    scenario.gpu(0, "NVIDIA H100 80GB HBM3", power_limit_w=700).health(0, gpm=1, max_clock=1980)
    work = {"gr": 98, "sm": 1, "occupancy": 1}
    scenario.at(5, util=98, power_w=150, clock_mhz=1980, processes={ME: 7900}, counters=work)
    (gpu,) = watch(scenario, 20).gpus
    assert gpu.intensity is not None
    assert (gpu.intensity.source, gpu.intensity.clock_share) == ("gpm", 1)
    # The first second of work is part of an interval that began before it.
    assert gpu.intensity.sm_active == pytest.approx(0.01, abs=0.001)
    assert gpu.intensity.power_share == pytest.approx(120 / 670)


def test_pcie_traffic_is_read_of_one_busy_gpu_at_a_time(scenario: Scenario):
    """It takes 40 ms for each GPU."""
    samples: list[Sample] = []
    scenario.gpus(4)
    for index in range(3):
        scenario.health(index, pcie=1).at(0, index, util=90, processes={ME: 7900}, counters={"pcie_tx": 8})
    telemetry = watch(scenario, 24, samples.append)
    read = [[gpu.pcie_bytes_per_s is not None for gpu in sample.gpus] for sample in samples]
    assert {sum(gpus) for gpus in read} == {0, 1}
    rates = [gpu.intensity and gpu.intensity.pcie_bytes_per_s for gpu in telemetry.gpus]
    assert rates == [8 * 2**20] * 3 + [None]


@pytest.mark.parametrize(("busy", "outcome"), [(90, USED), (0, IDLE)])
def test_a_mig_instance_of_a_hopper_gpu_is_judged_by_its_counters(
    scenario: Scenario, busy: float, outcome: str
):
    scenario.gpu(0, "NVIDIA H100 80GB HBM3", mig=True).health(0, gpm=1, mig_instances=1, instance0=3)
    scenario.fail("nvmlDeviceGetUtilizationRates", NOT_SUPPORTED)
    scenario.at(5, memory_mib=8000, processes={ME: (7900, -1, 3)})
    scenario.instance(5, 0, 3, gr=busy, sm=busy / 2)
    verdict = judge(Expectation(1, "H100", "--gpu H100", required=True), watch(scenario, 30))
    assert verdict.outcome == outcome


class HalfActive:
    """A DCGM in which half of the multiprocessors of the scenario's GPU 0 work."""

    closed = False

    def read(self) -> dict[Entity, Fields]:
        return {("GPU-00000000-0000-0000-0000-000000000000", WHOLE_GPU): {1001: 0.9, 1002: 0.5}}

    def close(self) -> None:
        self.closed = True


def test_a_gpu_without_counters_in_nvml_has_those_of_dcgm(scenario: Scenario):
    source = HalfActive()
    scenario.gpu(0, "Tesla T4").at(5, util=90, power_w=60, processes={ME: 7900})
    (gpu,) = watch(scenario, 20, open_dcgm=lambda: Dcgm(source)).gpus
    assert gpu.intensity is not None
    assert (gpu.intensity.source, gpu.intensity.sm_active) == ("dcgm", pytest.approx(0.5))
    assert gpu.intensity.busy == pytest.approx(0.9)
    assert source.closed


def test_dcgm_is_not_looked_for_where_nvml_has_the_counters(scenario: Scenario):
    scenario.gpu(0, "NVIDIA H100 80GB HBM3").health(0, gpm=1)
    telemetry = watch(scenario, 5, open_dcgm=lambda: pytest.fail("DCGM was looked for"))
    assert (telemetry.nvml, telemetry.samples > 1) == (NvmlState.AVAILABLE, True)


def test_the_last_sample_has_no_counters_if_it_comes_too_soon(scenario: Scenario):
    """They are refreshed every 100 ms."""
    taken: list[Sample] = []
    scenario.gpu(0, "NVIDIA H100 80GB HBM3").health(0, gpm=1)
    scenario.at(0, util=90, processes={ME: 7900}, counters={"gr": 90, "sm": 50})
    scenario.now(0)
    time = Time(10, scenario)
    watching = Sampler(ME, taken.append, sees_host_pids=True, clock=time.clock, wait=time.wait)
    time._stopping = watching._stopping
    watching.start()
    assert time._over.wait(300)
    time.now -= 0.95
    watching.stop()
    assert [sample.gpus[0].counters is not None for sample in taken[-2:]] == [True, False]


def test_memory_errors_of_the_run_are_counted_and_not_those_before(scenario: Scenario):
    scenario.gpu(0).at(5, util=90, memory_mib=8000, power_w=250, processes={ME: 7900})
    scenario.health(0, ecc_volatile=0, ecc_corrected=7)

    def fail_later(sample: Sample) -> None:
        if 5 <= sample.t < 6:
            scenario.health(0, ecc_volatile=0, ecc_corrected=9).write()

    telemetry = watch(scenario, 10, fail_later)
    assert telemetry.gpus[0].ecc_errors == 2
    assert judge(ONE, telemetry).gpus[0].ecc_errors == 2
