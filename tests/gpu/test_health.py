"""How a GPU is, through the real pynvml and the stub library."""

import pytest

from gpuproof.gpu.health import GpuHealth, read_health
from gpuproof.gpu.nvml import Nvml
from support.nvml_stub import GPU_IS_LOST, NO_PERMISSION, Scenario


def read(index: int = 0) -> GpuHealth:
    import pynvml

    with Nvml.open():
        return read_health(pynvml, index)


def test_what_nvml_does_not_support_is_none(scenario: Scenario):
    scenario.gpu(0).write()
    assert read() == GpuHealth(0)


def test_memory_errors_and_remapped_rows_are_read(scenario: Scenario):
    scenario.gpu(0).health(
        ecc=1, ecc_volatile=2, ecc_aggregate=5, sram_worn=1, remapped=3, remap_pending=1, remap_failed=0
    ).write()
    health = read()
    assert (health.ecc, health.ecc_volatile, health.ecc_aggregate, health.sram_worn) == (True, 2, 5, True)
    assert (health.rows_remapped, health.remap_pending, health.remap_failed) == (3, True, False)


def test_before_row_remapping_pages_wait_for_retirement(scenario: Scenario):
    scenario.gpu(0, "Tesla V100-SXM2-16GB").health(pages_pending=1).write()
    health = read()
    assert (health.remap_pending, health.remap_failed, health.rows_remapped) == (True, None, None)


def test_the_link_and_the_modes_are_read(scenario: Scenario):
    scenario.gpu(0).health(
        width=8,
        width_max=16,
        generation=1,
        generation_max=4,
        persistence=0,
        compute_mode=3,
        power_default=300,
    ).write()
    health = read()
    assert (health.pcie_width, health.pcie_width_max) == (8, 16)
    assert (health.pcie_generation, health.pcie_generation_max) == (1, 4)
    assert (health.persistence, health.compute_mode) == (False, "exclusive process")
    assert health.power_default_w == 300


@pytest.mark.parametrize("instances", [0, 3])
def test_mig_instances_are_counted(scenario: Scenario, instances: int):
    scenario.gpu(0, "NVIDIA A100-SXM4-80GB", mig=True).health(mig_instances=instances).write()
    health = read()
    assert (health.mig, health.mig_pending, health.mig_instances) == (True, True, instances)


def test_mig_instances_that_may_not_be_seen_are_unknown(scenario: Scenario):
    scenario.gpu(0, mig=True).fail("nvmlDeviceGetMigDeviceHandleByIndex", NO_PERMISSION).write()
    assert read().mig_instances is None


def test_a_change_of_mig_that_waits_for_a_reset_shows(scenario: Scenario):
    scenario.gpu(0, mig=False).health(mig_pending=1).write()
    health = read()
    assert (health.mig, health.mig_pending) == (False, True)


def test_the_fabric_s_state_and_outcome_are_read(scenario: Scenario):
    scenario.gpu(0, "NVIDIA H100 80GB HBM3").health(fabric=3, fabric_status=999).write()
    health = read()
    assert (health.fabric, health.fabric_status) == ("completed", 999)


def test_a_lost_gpu_has_no_health_readings(scenario: Scenario):
    scenario.gpu(0).health(ecc=1).at(0, error=GPU_IS_LOST).write()
    assert read() == GpuHealth(0)
