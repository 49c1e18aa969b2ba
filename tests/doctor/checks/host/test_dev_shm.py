"""Size of `/dev/shm`."""

from pathlib import Path

import pytest

from gpuproof.doctor.checks.host import dev_shm
from support.gpu_states import GIB, text
from support.machine_files import machine_with_files

MIB = 1 << 20


def judge_shm(**fields):
    return list(dev_shm.evaluate(dev_shm.Reading(**fields)))


def test_docker_s_64_mib_are_a_warning_that_names_the_flag():
    (finding,) = judge_shm(total=64 * MIB, container=True)
    assert (finding.code, finding.severity) == ("D670", "warning")
    assert "--shm-size" in text(finding)


def test_a_host_s_small_shm_is_grown_by_mounting_it_again():
    (finding,) = judge_shm(total=512 * MIB)
    assert "remount" in text(finding)


def test_a_dev_shm_of_half_the_memory_has_no_finding():
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
def test_the_mount_table_contains_the_size(tmp_path: Path, mounts: str, total: int):
    machine = machine_with_files(tmp_path, proc__mounts=mounts + "\n", proc__meminfo="MemTotal: 4194304 kB\n")
    (tmp_path / "dev/shm").mkdir(parents=True)
    reading = dev_shm.read(machine)
    assert reading is not None
    assert reading.total == total


def test_no_shm_at_all_is_a_warning(tmp_path: Path):
    reading = dev_shm.read(machine_with_files(tmp_path, proc__mounts="overlay / overlay rw 0 0\n"))
    assert reading is not None
    (finding,) = dev_shm.evaluate(reading)
    assert "is missing" in finding.message


def test_without_readable_mounts_nothing_is_reported(tmp_path: Path):
    assert dev_shm.read(machine_with_files(tmp_path)) is None
