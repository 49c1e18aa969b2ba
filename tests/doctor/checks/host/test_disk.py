"""Free disk space."""

from pathlib import Path

from gpuproof.doctor.checks.host import disk
from gpuproof.doctor.checks.host.disk import Folder
from gpuproof.doctor.machine import Machine
from support.gpu_states import GIB, codes

MIB = 1 << 20


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


def test_a_small_separate_temporary_file_system_has_no_finding():
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
