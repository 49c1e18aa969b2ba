"""Other processes on the GPUs."""

import os
import pwd
import subprocess
import sys
from pathlib import Path

from gpuproof.doctor.checks.gpu_state.gpu_processes import read as read_uses
from gpuproof.doctor.machine import Machine
from gpuproof.gpu.checks.gpu_processes import GpuProcess, GpuUse
from gpuproof.gpu.checks.gpu_processes import evaluate as judge_use
from support.gpu_states import GIB, codes
from support.nvml_stub import Scenario, build_library

MIB = 1 << 20


def use(**fields) -> GpuUse:
    return GpuUse("GPU 0", **{"processes": (), "memory_total": 24 * GIB, "idle_at_most": GIB, **fields})


def test_a_gpu_in_use_names_its_processes():
    (finding,) = judge_use([use(processes=(GpuProcess(42, "python", "ann", 9 * GIB),), memory_used=9 * GIB)])
    assert (finding.code, finding.severity) == ("D635", "warning")
    assert "pid 42 (python, user ann): 9.0 GiB" in finding.evidence


def test_a_small_idle_tenant_is_a_note():
    (finding,) = judge_use([use(processes=(GpuProcess(42),), memory_used=GIB // 4, utilization=0)])
    assert (finding.code, finding.severity) == ("D635", "note")


def test_memory_without_an_owner_is_reported_and_an_idle_gpu_is_not():
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
