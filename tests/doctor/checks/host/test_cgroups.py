"""CPU and memory limits of the control group."""

from pathlib import Path

from gpuproof.doctor.checks.host import cgroups
from support.gpu_states import GIB, codes
from support.machine_files import machine_with_files


def test_limits_of_every_group_above_count(tmp_path: Path):
    machine = machine_with_files(
        tmp_path,
        proc__self__cgroup="0::/kubepods/pod1/c1\n",
        sys__fs__cgroup__kubepods__cpu="",
        **{
            "sys__fs__cgroup__kubepods__pod1__cpu.max": "250000 100000\n",
            "sys__fs__cgroup__kubepods__pod1__c1__cpu.max": "max 100000\n",
            "sys__fs__cgroup__kubepods__memory.max": str(2 * GIB),
            "sys__fs__cgroup__kubepods__pod1__c1__memory.max": "max\n",
        },
    )
    reading = cgroups.read(machine)
    assert reading is not None
    assert (reading.quota, reading.memory_limit) == (2.5, 2 * GIB)


def test_version_1_groups_are_read_too(tmp_path: Path):
    machine = machine_with_files(
        tmp_path,
        proc__self__cgroup="5:memory:/docker/x\n4:cpu,cpuacct:/docker/x\n",
        **{
            "sys__fs__cgroup__cpu__cpu.cfs_quota_us": "150000\n",
            "sys__fs__cgroup__cpu__cpu.cfs_period_us": "100000\n",
            "sys__fs__cgroup__memory__memory.limit_in_bytes": "9223372036854771712\n",
        },
    )
    reading = cgroups.read(machine)
    assert reading is not None
    assert (reading.quota, reading.memory_limit) == (1.5, None)


def judge_group(**fields):
    return codes(cgroups.evaluate(cgroups.Reading(**fields)))


def test_few_of_many_cpus_are_a_warning_by_quota_and_by_affinity():
    assert judge_group(cpus=16, quota=2.0, gpus=1) == ["D676 warning"]
    assert judge_group(cpus=16, affinity=1, gpus=1) == ["D676 warning"]
    assert judge_group(cpus=96, quota=8.0, gpus=8) == ["D676 warning"]


def test_enough_cpus_or_few_in_all_are_no_finding():
    assert judge_group(cpus=16, quota=8.0, gpus=1) == []
    assert judge_group(cpus=96, quota=12.0, gpus=1) == []
    assert judge_group(cpus=4, quota=3.0, gpus=1) == []
    assert judge_group(quota=1.0) == []


def test_little_of_much_memory_is_a_warning():
    assert judge_group(memory=64 * GIB, memory_limit=4 * GIB) == ["D677 warning"]
    assert judge_group(memory=64 * GIB, memory_limit=60 * GIB) == []
    assert judge_group(memory=64 * GIB) == []
