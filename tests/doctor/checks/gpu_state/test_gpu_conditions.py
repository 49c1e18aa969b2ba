"""Checks of what NVML says: each found broken, and found well."""

import os
import pwd
import subprocess
import sys
from pathlib import Path

import pytest

from gpuproof.doctor.checks.gpu_state import compute_mode, ecc_errors, mig, pcie_link, throttling
from gpuproof.doctor.checks.gpu_state.fabric_manager import Reading as Fabric
from gpuproof.doctor.checks.gpu_state.fabric_manager import evaluate as judge_fabric
from gpuproof.doctor.checks.gpu_state.gpu_processes import GpuProcess, GpuUse
from gpuproof.doctor.checks.gpu_state.gpu_processes import evaluate as judge_use
from gpuproof.doctor.checks.gpu_state.gpu_processes import read as read_uses
from gpuproof.doctor.machine import Machine
from support.gpu_states import GIB, codes, gpu, gpus, text
from support.nvml_stub import Scenario, build_library

MIB = 1 << 20
UNKNOWN = gpus(gpu())


@pytest.mark.parametrize("check", [ecc_errors, throttling, compute_mode, mig, pcie_link])
def test_what_nvml_does_not_say_is_no_finding(check):
    assert codes(check.evaluate(UNKNOWN)) == []


def test_uncorrected_errors_since_the_driver_was_loaded_are_an_error():
    (finding,) = ecc_errors.evaluate(gpus(gpu(ecc_volatile=1, ecc_aggregate=4)))
    assert (finding.code, str(finding.location)) == ("D601", "GPU 0 (NVIDIA A10G)")
    assert "an uncorrectable memory error" in finding.message


def test_errors_of_the_past_are_a_note():
    assert codes(ecc_errors.evaluate(gpus(gpu(ecc_volatile=0, ecc_aggregate=4)))) == ["D602 note"]


def test_no_errors_are_no_finding():
    well = gpu(ecc_volatile=0, ecc_aggregate=0, sram_worn=False, remap_pending=False, remap_failed=False)
    assert codes(ecc_errors.evaluate(gpus(well))) == []


def test_worn_on_chip_memory_is_said_once_and_asks_for_another_gpu():
    (finding,) = ecc_errors.evaluate(gpus(gpu(ecc_volatile=7, sram_worn=True)))
    assert finding.code == "D603"
    assert "moves it to other hardware" in text(finding)


def test_a_failed_remap_is_said_rather_than_a_pending_one():
    found = ecc_errors.evaluate(gpus(gpu(remap_pending=True, remap_failed=True)))
    assert codes(found) == ["D605 error"]


def test_each_gpu_is_judged_for_itself():
    found = list(ecc_errors.evaluate(gpus(gpu(0), gpu(1, remap_pending=True))))
    assert [str(one.location) for one in found] == ["GPU 1 (NVIDIA A10G)"]


@pytest.mark.parametrize("reason", ["hardware slowdown", "thermal slowdown (software)", "power brake"])
def test_a_slowdown_by_heat_or_board_is_a_warning(reason: str):
    assert codes(throttling.evaluate(gpus(gpu(throttle=(reason,))))) == ["D615 warning"]


@pytest.mark.parametrize("reason", ["power cap", "application clocks", "sync boost"])
def test_what_healthy_gpus_show_is_no_finding(reason: str):
    assert codes(throttling.evaluate(gpus(gpu(throttle=(reason,))))) == []


def test_a_lowered_power_limit_names_the_command_that_raises_it():
    (finding,) = throttling.evaluate(gpus(gpu(2, power_limit_w=100, power_default_w=300.0)))
    assert (finding.code, finding.remedy) == ("D616", "sudo nvidia-smi -i 2 -pl 300")


def test_a_raised_or_rounded_power_limit_is_no_finding():
    assert codes(throttling.evaluate(gpus(gpu(power_limit_w=299.7, power_default_w=300.0)))) == []
    assert codes(throttling.evaluate(gpus(gpu(power_limit_w=350, power_default_w=300.0)))) == []


def test_a_prohibited_gpu_is_an_error_and_an_exclusive_one_a_warning():
    assert codes(compute_mode.evaluate(gpus(gpu(compute_mode="prohibited")))) == ["D618 error"]
    assert codes(compute_mode.evaluate(gpus(gpu(compute_mode="exclusive process")))) == ["D618 warning"]
    assert codes(compute_mode.evaluate(gpus(gpu(compute_mode="default")))) == []


def test_persistence_mode_is_one_note_for_all_gpus():
    found = list(compute_mode.evaluate(gpus(gpu(0, persistence=False), gpu(1, persistence=False))))
    assert codes(found) == ["D619 note"]
    assert len(found[0].evidence) == 2
    assert codes(compute_mode.evaluate(gpus(gpu(persistence=True)))) == []


def test_mig_without_instances_is_an_error_with_them_a_note():
    assert codes(mig.evaluate(gpus(gpu(mig=True, mig_pending=True, mig_instances=0)))) == ["D620 error"]
    assert codes(mig.evaluate(gpus(gpu(mig=True, mig_pending=True, mig_instances=3)))) == ["D621 note"]
    assert codes(mig.evaluate(gpus(gpu(mig=True, mig_pending=True)))) == []


def test_a_pending_change_of_mig_says_which_way_it_goes():
    (finding,) = mig.evaluate(gpus(gpu(mig=True, mig_pending=False, mig_instances=0)))
    assert finding.code == "D622"
    assert "from MIG on to MIG off" in finding.message


def test_a_link_of_half_the_lanes_is_how_ec2_wires_it_unless_a_neighbour_has_more():
    half = {"pcie_width": 8, "pcie_width_max": 16}
    assert codes(pcie_link.evaluate(gpus(gpu(0, **half), gpu(1, **half)))) == []
    found = list(pcie_link.evaluate(gpus(gpu(0, **half), gpu(1, pcie_width=16, pcie_width_max=16))))
    assert [str(one.location) for one in found] == ["GPU 0 (NVIDIA A10G)"]


def test_fewer_than_eight_lanes_are_a_warning_on_a_gpu_alone():
    (finding,) = pcie_link.evaluate(gpus(gpu(pcie_width=4, pcie_width_max=16)))
    assert "x4" in finding.message
    assert codes(pcie_link.evaluate(gpus(gpu(pcie_width=4, pcie_width_max=4)))) == []


def test_an_idle_link_s_low_generation_is_no_finding():
    idle = gpu(pcie_width=16, pcie_width_max=16, pcie_generation=1, pcie_generation_max=4)
    assert codes(pcie_link.evaluate(gpus(idle))) == []


def fabric(*states: tuple[str, int], switches: int = 6, manager: bool | None = True) -> Fabric:
    named = tuple((f"GPU {index}", state, status) for index, (state, status) in enumerate(states))
    return Fabric(switches, manager, named, "580.95.05")


def test_nvswitches_without_fabric_manager_are_an_error():
    (finding,) = judge_fabric(fabric(("not started", 0), ("not started", 0), manager=False))
    assert finding.code == "D625"
    assert "580.95.05" in text(finding)


def test_in_a_container_nobody_knows_whether_fabric_manager_runs():
    assert codes(judge_fabric(fabric(("completed", 0), ("completed", 0), manager=None))) == []


def test_gpus_that_have_not_joined_the_fabric_are_an_error():
    (finding,) = judge_fabric(fabric(("completed", 0), ("in progress", 0), manager=None))
    assert finding.code == "D626"
    assert "GPU 1 is not yet registered" in finding.message


def test_gpus_that_could_not_join_the_fabric_are_an_error_with_nvml_s_code():
    (finding,) = judge_fabric(fabric(("completed", 999), ("completed", 0)))
    assert "GPU 0 failed to register" in finding.message
    assert "NVML code 999" in text(finding)


def test_one_gpu_alone_needs_no_fabric():
    assert codes(judge_fabric(fabric(("not started", 0), switches=0, manager=None))) == []


def use(**fields) -> GpuUse:
    return GpuUse("GPU 0", **{"processes": (), "memory_total": 24 * GIB, "idle_at_most": GIB, **fields})


def test_a_gpu_that_somebody_uses_names_who():
    (finding,) = judge_use([use(processes=(GpuProcess(42, "python", "ann", 9 * GIB),), memory_used=9 * GIB)])
    assert (finding.code, finding.severity) == ("D635", "warning")
    assert "pid 42 (python, user ann): 9.0 GiB" in finding.evidence


def test_a_small_idle_tenant_is_a_note():
    (finding,) = judge_use([use(processes=(GpuProcess(42),), memory_used=GIB // 4, utilization=0)])
    assert (finding.code, finding.severity) == ("D635", "note")


def test_memory_that_nobody_owns_is_said_and_an_idle_gpu_is_not():
    assert codes(judge_use([use(memory_used=9 * GIB)])) == ["D636 warning"]
    assert codes(judge_use([use(memory_used=GIB // 2)])) == []
    assert codes(judge_use([use()])) == []


def test_the_doctor_s_own_probes_are_not_other_users(tmp_path: Path):
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        shown = Scenario(tmp_path / "gpus.txt").gpu(0)
        shown.at(0, util=50, memory_mib=600, reserved_mib=400, processes={child.pid: 500, 1: 100}).write()
        environment = {**os.environ, **shown.environment(build_library(tmp_path))}
        (one,) = read_uses(Machine(environment=environment)) or ()
        child.communicate(b"\n")
    assert [process.pid for process in one.processes] == [1]


def test_a_tenant_is_named_with_its_user(tmp_path: Path):
    shown = Scenario(tmp_path / "gpus.txt").gpu(0).at(0, memory_mib=600, processes={1: 500}).write()
    environment = {**os.environ, **shown.environment(build_library(tmp_path))}
    (one,) = read_uses(Machine(environment=environment)) or ()
    owner = Path("/proc/1").stat().st_uid
    user = next((known.pw_name for known in pwd.getpwall() if known.pw_uid == owner), str(owner))
    assert one.processes == (GpuProcess(1, Path("/proc/1/comm").read_text().strip(), user, 500 * MIB),)
