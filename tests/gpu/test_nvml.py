"""The typed layer over NVML, through the real pynvml and the stub library."""

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpuproof.gpu import nvml
from gpuproof.gpu.nvml import Nvml, NvmlUnavailable, count_gpus, throttle_reasons
from support.nvml_stub import (
    DRIVER_NOT_LOADED,
    GPU_IS_LOST,
    NO_PERMISSION,
    NOT_SUPPORTED,
    UNKNOWN,
    Scenario,
    build_library,
    loaded,
)

MIB = 1024 * 1024


def test_a_gpu_is_described(scenario: Scenario):
    scenario.gpu(0, "Tesla T4", memory_mib=15360, compute_capability=(7, 5), power_limit_w=70).write()
    with Nvml.open() as open_nvml:
        (info,) = open_nvml.gpus()
        assert open_nvml.driver_version() == "550.54.15"
    assert (info.index, info.name, info.memory_total) == (0, "Tesla T4", 15360 * MIB)
    assert (info.compute_capability, info.power_limit_w, info.mig) == ((7, 5), 70, None)
    assert info.uuid is not None
    assert info.uuid.startswith("GPU-")
    assert info.pci_bus_id == "00000000:10:00.0"


@pytest.mark.parametrize(
    ("capability", "cores", "multiprocessors"),
    [((7, 0), 5120, 80), ((7, 5), 2560, 40), ((8, 0), 6912, 108), ((8, 9), 7424, 58), ((9, 0), 16896, 132)],
    ids=["V100", "T4", "A100", "L4", "H100"],
)
def test_multiprocessors_follow_from_the_cores(
    scenario: Scenario, capability: tuple[int, int], cores: int, multiprocessors: int
):
    scenario.gpu(0, compute_capability=capability).health(0, cores=cores).write()
    with Nvml.open() as open_nvml:
        assert open_nvml.gpus()[0].multiprocessors == multiprocessors


def test_a_driver_that_does_not_count_cores_leaves_multiprocessors_unknown(scenario: Scenario):
    scenario.gpu(0).write()
    with Nvml.open() as open_nvml:
        assert open_nvml.gpus()[0].multiprocessors is None


def test_a_reading_has_everything_in_plain_units(scenario: Scenario):
    scenario.gpu(0).at(
        0,
        util=87,
        memory_util=40,
        memory_mib=8000,
        reserved_mib=500,
        power_w=215.5,
        temperature_c=71,
        clock_mhz=1695,
        throttle=0x4 | 0x1,
        processes={4711: 7900, 4712: -1},
    ).write()
    with Nvml.open() as open_nvml:
        reading = open_nvml.read(0)
    assert (reading.utilization, reading.memory_utilization) == (87, 40)
    assert (reading.memory_used, reading.memory_reserved) == (8000 * MIB, 500 * MIB)
    assert (reading.power_w, reading.temperature_c, reading.sm_clock_mhz) == (215.5, 71, 1695)
    assert reading.throttle == ("power cap",)
    assert reading.processes == ((4711, 7900 * MIB), (4712, None))
    assert reading.error is None


def test_a_reading_follows_the_time(scenario: Scenario):
    scenario.gpu(0).at(0, util=0).at(5, util=90).now(4.9)
    with Nvml.open() as open_nvml:
        before = open_nvml.read(0).utilization
        scenario.now(5)
        after = open_nvml.read(0).utilization
    assert (before, after) == (0, 90)


@pytest.mark.parametrize(
    ("function", "field"),
    [
        ("nvmlDeviceGetUtilizationRates", "utilization"),
        ("nvmlDeviceGetPowerUsage", "power_w"),
        ("nvmlDeviceGetTemperature", "temperature_c"),
        ("nvmlDeviceGetClockInfo", "sm_clock_mhz"),
        ("nvmlDeviceGetCurrentClocksThrottleReasons", "throttle"),
    ],
)
@pytest.mark.parametrize("code", [NOT_SUPPORTED, NO_PERMISSION, UNKNOWN])
def test_what_nvml_does_not_give_is_none_and_the_rest_is_there(
    scenario: Scenario, function: str, field: str, code: int
):
    scenario.gpu(0).at(0, util=50, memory_mib=100, clock_mhz=1000).fail(function, code).write()
    with Nvml.open() as open_nvml:
        reading = open_nvml.read(0)
    assert getattr(reading, field) is None
    assert reading.memory_used == 100 * MIB
    assert reading.error is None


def test_a_driver_without_the_newer_functions_is_read_through_the_older(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    missing = ("nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetComputeRunningProcesses_v3")
    home = build_library(tmp_path_factory.mktemp("old"), without=missing)
    scenario = Scenario(tmp_path / "gpus.txt").gpu(0)
    scenario.at(0, memory_mib=8000, reserved_mib=500, processes={4711: 7900}).write()
    monkeypatch.setenv("GPUPROOF_NVML_STUB", str(scenario.path))
    with loaded(home), Nvml.open() as open_nvml:
        reading = open_nvml.read(0)
    # The first version of the function counts what the driver reserves as used.
    assert (reading.memory_used, reading.memory_reserved) == (8500 * MIB, None)
    assert reading.processes == ((4711, 7900 * MIB),)


def test_a_gpu_that_is_lost_is_an_error_in_words(scenario: Scenario):
    scenario.gpus(2).at(0, 0, util=50).at(0, 1, util=60).at(10, 1, error=GPU_IS_LOST).now(0)
    with Nvml.open() as open_nvml:
        assert open_nvml.read(1).utilization == 60
        scenario.now(10)
        lost, other = open_nvml.read(1), open_nvml.read(0)
    assert lost.error == "GPU is lost (NVML code 15)"
    assert lost.utilization is None
    assert other.utilization == 50


def test_a_gpu_that_is_lost_from_the_start_does_not_hide_the_others(scenario: Scenario):
    scenario.gpus(2).at(0, 0, error=GPU_IS_LOST).at(0, 1, util=60).write()
    with Nvml.open() as open_nvml:
        assert [info.name for info in open_nvml.gpus()] == [None, "NVIDIA A10G"]
        assert open_nvml.read(0).error is not None
        assert open_nvml.read(1).utilization == 60


def test_a_driver_that_goes_away_midway_is_an_error_and_closes_in_peace(scenario: Scenario):
    scenario.gpu(0).at(0, util=50).fail("*", DRIVER_NOT_LOADED, at=5).now(0)
    with Nvml.open() as open_nvml:
        scenario.now(5)
        assert "Driver Not Loaded" in (open_nvml.read(0).error or "")
        assert open_nvml.driver_version() is None


def test_an_unloaded_driver_is_reported(scenario: Scenario):
    scenario.gpu(0).fail("nvmlInit", DRIVER_NOT_LOADED).write()
    with pytest.raises(NvmlUnavailable, match="installed but not loaded") as caught:
        Nvml.open()
    assert caught.value.code == DRIVER_NOT_LOADED
    assert not caught.value.library_missing
    assert count_gpus() == 0


def test_each_process_has_its_part_of_a_shared_gpu(scenario: Scenario):
    scenario.gpu(0).at(0, util=90, processes={4711: (4000, 35), 815: (4000, 55)}).write()
    with Nvml.open() as open_nvml:
        reading = open_nvml.with_process_utilization(open_nvml.read(0), 0)
    assert reading.process_utilization == ((815, 55), (4711, 35))


def test_no_work_by_any_process_is_not_the_same_as_not_known(scenario: Scenario):
    scenario.gpu(0).at(0, processes={4711: 4000}).write()
    with Nvml.open() as open_nvml:
        reading = open_nvml.read(0)
        assert open_nvml.with_process_utilization(reading, 0).process_utilization == ()
        scenario.fail("nvmlDeviceGetProcessUtilization", NOT_SUPPORTED).write()
        assert open_nvml.with_process_utilization(reading, 0).process_utilization is None


def test_gpus_are_counted_whatever_cuda_visible_devices_contains(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch
):
    scenario.gpus(4).write()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    assert count_gpus() == 4


def test_without_the_library_nothing_is_counted_and_pynvml_is_not_imported():
    lines = [
        "import sys",
        "import gpuproof.gpu.nvml as nvml",
        "nvml.LIBRARY = 'libnvidia-ml-of-no-driver.so.1'",
        "print(nvml.count_gpus(), 'pynvml' in sys.modules)",
    ]
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True)
    assert done.stdout.split() == ["0", "False"], done.stderr


def test_the_library_is_found_through_ld_library_path(nvml_home: Path, tmp_path: Path):
    scenario = Scenario(tmp_path / "gpus.txt").gpus(2).write()
    done = subprocess.run(
        [sys.executable, "-c", "from gpuproof.gpu.nvml import count_gpus; print(count_gpus())"],
        env={**os.environ, **scenario.environment(nvml_home)},
        capture_output=True,
        text=True,
    )
    assert done.stdout.strip() == "2", done.stderr


def test_the_stub_leaves_the_process_as_it_was(nvml_home: Path):
    with loaded(nvml_home):
        assert nvml.library_present()
    with pytest.raises(OSError, match="libnvidia-ml"):
        ctypes.CDLL(nvml.LIBRARY, mode=os.RTLD_NOLOAD)


def test_low_clocks_of_an_idle_gpu_are_no_throttling():
    assert throttle_reasons(0x1) == ()


def test_the_reasons_for_throttling_are_words():
    assert throttle_reasons(0x48) == ("hardware slowdown", "thermal slowdown (hardware)")


def test_memory_errors_are_counted_whether_corrected_or_not(scenario: Scenario):
    scenario.gpu(0).health(0, ecc_volatile=2, ecc_corrected=40).write()
    with Nvml.open() as open_nvml:
        assert open_nvml.with_ecc_errors(open_nvml.read(0)).ecc_errors == 42


def test_a_gpu_without_ecc_counts_no_memory_errors(scenario: Scenario):
    scenario.gpu(0).write()
    with Nvml.open() as open_nvml:
        assert open_nvml.with_ecc_errors(open_nvml.read(0)).ecc_errors is None
