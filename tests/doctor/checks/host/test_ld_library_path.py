"""Libraries in `LD_LIBRARY_PATH` that override others."""

from pathlib import Path

from gpuproof.doctor.checks.host import ld_library_path
from gpuproof.doctor.checks.host.ld_library_path import Shadow
from gpuproof.doctor.machine import Machine
from gpuproof.gpu.framework_probe import Packages
from support.gpu_states import codes


def machine_with(tmp_path: Path, value: str, packages: dict[str, str] | None = None) -> Machine:
    site = tmp_path / "venv/lib/python3.11/site-packages"
    (site / "nvidia/cudnn/lib").mkdir(parents=True)
    (site / "nvidia/cudnn/lib/libcudnn.so.9").write_text("")
    old = tmp_path / "cuda/lib64"
    (old / "stubs").mkdir(parents=True)
    (old / "stubs/libcuda.so.1").write_text("")
    (old / "libcudnn.so.9.1.0").write_text("")
    (old / "libcudnn.so.9").symlink_to("libcudnn.so.9.1.0")
    machine = Machine(environment={"LD_LIBRARY_PATH": value.replace("CUDA", str(old))})
    installed = packages or {"nvidia-cudnn-cu12": "9.10.2.21"}
    vars(machine)["packages"] = Packages(folders=(str(site),), versions=installed)
    return machine


def test_an_older_library_before_the_wheel_s_own_is_a_warning(tmp_path: Path):
    reading = ld_library_path.read(machine_with(tmp_path, "/nowhere:CUDA"))
    assert reading is not None
    (finding,) = ld_library_path.evaluate(reading)
    assert finding.code == "D660"
    assert "libcudnn.so.9 9.1.0 instead of 9.10.2.21" in finding.message


def test_the_same_version_twice_has_no_finding(tmp_path: Path):
    reading = ld_library_path.read(machine_with(tmp_path, "CUDA", {"nvidia-cudnn-cu12": "9.1.0.70"}))
    assert reading is not None
    assert codes(ld_library_path.evaluate(reading)) == []


def test_versions_that_are_not_known_are_no_finding():
    unknown = Shadow("libcudnn.so.9", "/opt/libcudnn.so.9", None, "/site/libcudnn.so.9", "9.10.2.21")
    assert codes(ld_library_path.evaluate(ld_library_path.Reading((unknown,)))) == []


def test_the_stub_of_the_driver_on_the_path_is_an_error(tmp_path: Path):
    reading = ld_library_path.read(machine_with(tmp_path, "CUDA/stubs"))
    assert reading is not None
    assert codes(ld_library_path.evaluate(reading)) == ["D661 error"]


def test_without_the_variable_no_library_is_looked_for():
    assert ld_library_path.read(Machine(environment={})) is None
