"""Shared memory, limits, disk, control groups and memory pressure."""

from pathlib import Path

import pytest

from gpuproof.doctor.checks.host import cgroups, dev_shm, disk, memory_pressure, ulimits
from gpuproof.doctor.checks.host.disk import Folder
from gpuproof.doctor.machine import Machine
from support.gpu_states import GIB, codes, text

MIB = 1 << 20


def fake(root: Path, **files: str) -> Machine:
    """A machine with files whose names have `__` for `/`."""
    for name, content in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    machine = Machine(root=root, environment={"HOME": "/home/ann"})
    vars(machine)["gpus"] = None
    return machine


def judge_shm(**fields):
    return list(dev_shm.evaluate(dev_shm.Reading(**fields)))


def test_docker_s_64_mib_are_a_warning_that_names_the_flag():
    (finding,) = judge_shm(total=64 * MIB, container=True)
    assert (finding.code, finding.severity) == ("D670", "warning")
    assert "--shm-size" in text(finding)


def test_a_host_s_small_shm_is_grown_by_mounting_it_again():
    (finding,) = judge_shm(total=512 * MIB)
    assert "remount" in text(finding)


def test_half_of_the_memory_is_no_finding():
    assert judge_shm(total=8 * GIB, used=GIB) == []
    assert judge_shm(total=8 * GIB) == []


def test_a_full_shm_is_a_warning_about_what_was_left_there():
    (finding,) = judge_shm(total=8 * GIB, used=8 * GIB - 100 * MIB)
    assert "torch_*" in text(finding)


@pytest.mark.parametrize(
    ("mounts", "total"),
    [
        ("shm /dev/shm tmpfs rw,nosuid,size=65536k,inode64 0 0", 64 * MIB),
        ("tmpfs /dev/shm tmpfs rw,size=8g 0 0", 8 * GIB),
        ("tmpfs /dev/shm tmpfs rw,nosuid,nodev 0 0", 2 * GIB),
    ],
)
def test_the_mount_table_tells_the_size(tmp_path: Path, mounts: str, total: int):
    machine = fake(tmp_path, proc__mounts=mounts + "\n", proc__meminfo="MemTotal: 4194304 kB\n")
    (tmp_path / "dev/shm").mkdir(parents=True)
    reading = dev_shm.read(machine)
    assert reading is not None
    assert reading.total == total


def test_no_shm_at_all_is_a_warning(tmp_path: Path):
    reading = dev_shm.read(fake(tmp_path, proc__mounts="overlay / overlay rw 0 0\n"))
    assert reading is not None
    (finding,) = dev_shm.evaluate(reading)
    assert "is missing" in finding.message


def test_where_no_mounts_can_be_read_nothing_is_said(tmp_path: Path):
    assert dev_shm.read(fake(tmp_path)) is None


LIMITS = """Limit                     Soft Limit           Hard Limit           Units
Max open files            {files}                  {hard}                 files
Max locked memory         {locked}                65536                bytes
"""


def test_limits_are_read_as_the_kernel_prints_them(tmp_path: Path):
    machine = fake(
        tmp_path, proc__self__limits=LIMITS.format(files=1024, hard="unlimited", locked="unlimited")
    )
    assert ulimits.read(machine) == ulimits.Reading(1024, None, None)


def test_few_open_files_are_a_warning_with_a_command_that_works():
    (finding,) = ulimits.evaluate(ulimits.Reading(256, 4096))
    assert (finding.code, finding.severity, finding.remedy) == ("D671", "warning", "ulimit -n 4096")
    (finding,) = ulimits.evaluate(ulimits.Reading(256, 256))
    assert "limits.conf" in (finding.remedy or "")


def test_the_usual_1024_files_are_a_note_on_a_machine_of_many_gpus_alone():
    assert codes(ulimits.evaluate(ulimits.Reading(1024, None))) == []
    assert codes(ulimits.evaluate(ulimits.Reading(1024, None, gpus=8))) == ["D671 note"]
    assert codes(ulimits.evaluate(ulimits.Reading(None, None, gpus=8))) == []


def test_locked_memory_matters_beside_an_rdma_adapter_alone():
    assert codes(ulimits.evaluate(ulimits.Reading(65536, None, locked=65536, rdma=True))) == ["D672 warning"]
    assert codes(ulimits.evaluate(ulimits.Reading(65536, None, locked=65536))) == []
    assert codes(ulimits.evaluate(ulimits.Reading(65536, None, locked=None, rdma=True))) == []


def folder(**fields) -> disk.Reading:
    return disk.Reading(
        (Folder(**{"uses": ("the system",), "path": "/", "free": 80 * GIB, "total": 100 * GIB, **fields}),)
    )


def test_little_room_is_a_warning_and_none_an_error():
    assert codes(disk.evaluate(folder(free=2 * GIB))) == ["D673 warning"]
    assert codes(disk.evaluate(folder(free=10 * MIB))) == ["D673 error"]
    assert codes(disk.evaluate(folder())) == []


def test_no_inodes_left_is_an_error_though_bytes_are():
    (finding,) = disk.evaluate(folder(free_inodes=0.0))
    assert "inodes" in finding.message


def test_a_small_temporary_file_system_of_its_own_is_no_finding():
    assert codes(disk.evaluate(folder(uses=("temporary files",), free=2 * GIB))) == []


def test_uses_that_share_a_file_system_are_named_together():
    (finding,) = disk.evaluate(folder(uses=("the system", "the cache of Keras"), free=GIB))
    assert "the system and the cache of Keras" in finding.message


def test_a_cache_that_may_not_be_written_names_its_variable():
    (finding,) = disk.evaluate(folder(writable=False, set_by="HF_HOME", path="/data/hf"))
    assert finding.code == "D675"
    assert (finding.remedy or "").startswith("export HF_HOME=")


def test_a_temporary_folder_that_is_not_there_is_an_error(tmp_path: Path):
    gone = str(tmp_path / "gone")
    machine = Machine(environment={"TMPDIR": gone, "HOME": str(tmp_path)})
    reading = disk.read(machine)
    assert reading is not None
    assert ("TMPDIR", gone) in reading.missing
    assert "D674 error" in codes(disk.evaluate(reading))


def test_this_machine_s_file_systems_are_read(tmp_path: Path):
    reading = disk.read(Machine(environment={"HOME": str(tmp_path)}))
    assert reading is not None
    assert reading.folders[0].path == "/"
    assert reading.folders[0].total > reading.folders[0].free > 0


def test_limits_of_every_group_above_count(tmp_path: Path):
    machine = fake(
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
    machine = fake(
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


def test_a_machine_that_thrashes_is_a_warning_and_a_calm_one_is_not(tmp_path: Path):
    busy = fake(
        tmp_path,
        proc__pressure__memory="some avg10=90.00 avg60=1 avg300=1 total=1\nfull avg10=44.10 avg60=1 avg300=1 total=1\n",
        proc__meminfo="MemAvailable: 1024 kB\nSwapTotal: 4194304 kB\nSwapFree: 2097152 kB\n",
    )
    reading = memory_pressure.read(busy)
    assert reading == memory_pressure.Reading(44.1, MIB, 2 * GIB)
    assert codes(memory_pressure.evaluate(reading)) == ["D678 warning"]
    assert codes(memory_pressure.evaluate(memory_pressure.Reading(0.5))) == []


def test_a_kernel_that_measures_no_pressure_says_nothing(tmp_path: Path):
    assert memory_pressure.read(fake(tmp_path)) is None
