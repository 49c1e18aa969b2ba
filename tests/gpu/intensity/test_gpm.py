"""NVML's performance counters, through the real pynvml and the stub library."""

import ctypes
import math
from dataclasses import asdict
from pathlib import Path

import pytest

from gpuproof.gpu.intensity import Counters
from gpuproof.gpu.nvml import LIBRARY, MIB, GpuReading, Nvml
from support.nvml_stub import (
    GPU_IS_LOST,
    NO_PERMISSION,
    NOT_SUPPORTED,
    SCENARIO_VARIABLE,
    UNKNOWN,
    Scenario,
    build_library,
    loaded,
)

JOB = 4711
OTHER = 815
WORK = {
    "gr": 98.0,
    "sm": 74.0,
    "occupancy": 11.0,
    "tensor": 72.0,
    "dram": 20.0,
    "pcie_tx": 5.0,
    "pcie_rx": 3.0,
}


def h100(scenario: Scenario) -> Scenario:
    scenario.gpu(0, "NVIDIA H100 80GB HBM3", memory_mib=81559, compute_capability=(9, 0), power_limit_w=700)
    return scenario.health(0, gpm=1, max_clock=1980)


def mig(scenario: Scenario, instances: int) -> Scenario:
    scenario.gpu(0, "NVIDIA H100 80GB HBM3", compute_capability=(9, 0), mig=True)
    scenario.fail("nvmlDeviceGetUtilizationRates", NOT_SUPPORTED)
    scenario.fail("nvmlGpmSampleGet", NOT_SUPPORTED)
    return scenario.health(0, gpm=1, mig_instances=instances, instance0=3, instance1=5)


def read(nvml: Nvml, scenario: Scenario, *seconds: float) -> list[GpuReading]:
    readings: list[GpuReading] = []
    for second in seconds:
        scenario.now(second)
        readings.append(nvml.with_counters(nvml.read(0), frozenset({JOB})))
    return readings


def test_counters_are_the_means_between_two_readings(scenario: Scenario) -> None:
    h100(scenario).at(0, util=98, counters=WORK).at(1.5, util=98, counters={**WORK, "sm": 24.0}).now(0)
    with Nvml.open() as nvml:
        first, second, third = (reading.counters for reading in read(nvml, scenario, 0, 1, 2))
    assert first is None
    assert second is not None
    assert asdict(second) == {
        "source": "gpm",
        "busy": pytest.approx(0.98),
        "sm_active": pytest.approx(0.74),
        "sm_occupancy": pytest.approx(0.11),
        "tensor_active": pytest.approx(0.72),
        "fp64_active": 0,
        "fp32_active": 0,
        "fp16_active": 0,
        "integer_active": 0,
        "dram_active": pytest.approx(0.2),
        "pcie_bytes_per_s": pytest.approx(8 * MIB),
        "nvlink_bytes_per_s": 0,
    }
    assert third is not None
    assert third.sm_active == pytest.approx(0.49)


def test_a_gpu_without_them_has_none(scenario: Scenario) -> None:
    scenario.gpu(0).at(0, util=98, counters=WORK).now(0)
    with Nvml.open() as nvml:
        assert not nvml.counts_performance(0)
        assert [reading.counters for reading in read(nvml, scenario, 0, 1, 2)] == [None] * 3


@pytest.mark.parametrize(
    "missing",
    ["nvmlGpmQueryDeviceSupport", "nvmlGpmSampleAlloc", "nvmlGpmSampleGet", "nvmlGpmMetricsGet"],
)
def test_a_driver_without_the_functions_has_none(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    home = build_library(tmp_path_factory.mktemp("old"), without=(missing,))
    scenario = h100(Scenario(tmp_path / "gpus.txt")).at(0, util=98, counters=WORK).now(0)
    monkeypatch.setenv(SCENARIO_VARIABLE, str(scenario.path))
    with loaded(home), Nvml.open() as nvml:
        readings = read(nvml, scenario, 0, 1, 2)
    assert [(reading.counters, reading.utilization) for reading in readings] == [(None, 98)] * 3


@pytest.mark.parametrize("function", ["nvmlGpmSampleGet", "nvmlGpmMetricsGet"])
def test_what_fails_for_a_moment_is_there_again_afterwards(scenario: Scenario, function: str) -> None:
    h100(scenario).at(0, util=98, counters=WORK).fail(function, UNKNOWN, at=2, until=3).now(0)
    with Nvml.open() as nvml:
        counters = [reading.counters for reading in read(nvml, scenario, 0, 1, 2.5, 4, 5)]
    assert [counter is not None for counter in counters] == [
        False,
        True,
        False,
        # A failed sample leaves no start for the next interval.
        function == "nvmlGpmMetricsGet",
        True,
    ]
    assert counters[-1] is not None
    assert counters[-1].sm_active == pytest.approx(0.74)


def test_a_function_that_is_not_permitted_is_called_once(scenario: Scenario) -> None:
    h100(scenario).at(0, util=98, counters=WORK).fail("nvmlGpmSampleGet", NO_PERMISSION, until=1).now(0)
    with Nvml.open() as nvml:
        assert [reading.counters for reading in read(nvml, scenario, 0, 2, 3)] == [None] * 3


def test_a_counter_that_the_gpu_lacks_is_unknown_and_the_others_are_there(scenario: Scenario) -> None:
    h100(scenario).at(0, util=98, counters={**WORK, "tensor": -1.0, "nvlink_tx": -1.0, "dram": math.inf}).now(
        0
    )
    with Nvml.open() as nvml:
        _, reading = read(nvml, scenario, 0, 1)
    assert reading.counters is not None
    assert (reading.counters.tensor_active, reading.counters.nvlink_bytes_per_s) == (None, None)
    assert reading.counters.dram_active is None
    assert reading.counters.sm_active == pytest.approx(0.74)


def test_an_interval_of_no_time_has_unknown_counters(scenario: Scenario) -> None:
    h100(scenario).at(0, util=98, counters=WORK).now(0)
    with Nvml.open() as nvml:
        _, reading = read(nvml, scenario, 0, 0)
    assert reading.counters == Counters("gpm")


def test_a_lost_gpu_costs_nothing_but_its_counters(scenario: Scenario) -> None:
    h100(scenario).at(0, util=98, counters=WORK).at(2, error=GPU_IS_LOST).now(0)
    with Nvml.open() as nvml:
        _, reading, lost = read(nvml, scenario, 0, 1, 2)
    assert reading.counters is not None
    assert lost.error is not None


def test_all_samples_are_freed(scenario: Scenario) -> None:
    h100(scenario).at(0, util=98, counters=WORK).now(0)
    count = ctypes.CDLL(LIBRARY).stubGpmSamples
    with Nvml.open() as nvml:
        read(nvml, scenario, 0, 1, 2)
        assert count() == 2
    assert count() == 0


def test_buffers_that_cannot_both_be_allocated_are_freed(scenario: Scenario) -> None:
    h100(scenario).at(0, util=98, counters=WORK).fail("nvmlGpmSampleAlloc", UNKNOWN).now(0)
    count = ctypes.CDLL(LIBRARY).stubGpmSamples
    with Nvml.open() as nvml:
        assert [reading.counters for reading in read(nvml, scenario, 0, 1)] == [None, None]
        assert count() == 0


def test_a_jobs_mig_instance_has_its_own_counters_and_utilization(scenario: Scenario) -> None:
    mig(scenario, 2).at(0, processes={JOB: (4000, -1, 5), OTHER: (4000, -1, 3)})
    scenario.instance(0, 0, 3, gr=10, sm=5).instance(0, 0, 5, **WORK).now(0)
    with Nvml.open() as nvml:
        first, second = read(nvml, scenario, 0, 1)
    assert (first.utilization, second.utilization) == (None, 98)
    assert second.counters is not None
    assert second.counters.sm_active == pytest.approx(0.74)


def test_the_only_visible_mig_instance_is_the_jobs(scenario: Scenario) -> None:
    """As in a container, where NVML lists no process."""
    mig(scenario, 1).instance(0, 0, 3, **WORK).now(0)
    with Nvml.open() as nvml:
        _, reading = read(nvml, scenario, 0, 1)
    assert (reading.utilization, reading.counters is not None) == (98, True)


def test_of_several_mig_instances_none_is_taken_for_the_jobs(scenario: Scenario) -> None:
    mig(scenario, 2).instance(0, 0, 3, **WORK).instance(0, 0, 5, **WORK).now(0)
    with Nvml.open() as nvml:
        _, reading = read(nvml, scenario, 0, 1)
    assert (reading.utilization, reading.counters) == (None, None)


def test_a_job_on_two_mig_instances_has_their_mean(scenario: Scenario) -> None:
    mig(scenario, 2).at(0, processes={JOB: (4000, -1, 5), JOB + 1: (4000, -1, 3)})
    scenario.instance(0, 0, 3, gr=50, sm=20).instance(0, 0, 5, gr=100, sm=40).now(0)
    with Nvml.open() as nvml:
        for second in (0, 1):
            scenario.now(second)
            reading = nvml.with_counters(nvml.read(0), frozenset({JOB, JOB + 1}))
    assert reading.counters is not None
    assert (reading.counters.busy, reading.counters.sm_active) == (pytest.approx(0.75), pytest.approx(0.3))


def test_pcie_traffic_is_both_directions(scenario: Scenario) -> None:
    scenario.gpu(0).health(0, pcie=1).at(0, util=98, counters={"pcie_tx": 5, "pcie_rx": 3}).now(0)
    with Nvml.open() as nvml:
        assert nvml.with_pcie(nvml.read(0)).pcie_bytes_per_s == 8 * MIB


def test_a_gpu_without_a_pcie_counter_has_no_traffic(scenario: Scenario) -> None:
    scenario.gpu(0).at(0, util=98, counters={"pcie_tx": 5, "pcie_rx": 3}).now(0)
    with Nvml.open() as nvml:
        assert nvml.with_pcie(nvml.read(0)).pcie_bytes_per_s is None


def test_the_highest_clock_is_known(scenario: Scenario) -> None:
    h100(scenario).now(0)
    with Nvml.open() as nvml:
        assert [info.max_sm_clock_mhz for info in nvml.gpus()] == [1980]
