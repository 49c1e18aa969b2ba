"""Libraries in `LD_PRELOAD` that replace others, or do not exist."""

from pathlib import Path

import pytest

from gpuproof.doctor.checks.host import ld_preload
from gpuproof.doctor.machine import Machine
from gpuproof.gpu.framework_probe import Packages
from support.gpu_states import codes


def machine_with(tmp_path: Path, value: str) -> Machine:
    site = tmp_path / "venv/lib/python3.11/site-packages"
    (site / "nvidia/nccl/lib").mkdir(parents=True)
    (site / "nvidia/nccl/lib/libnccl.so.2").write_text("")
    lib = tmp_path / "lib"
    (lib / "stubs").mkdir(parents=True)
    for name in (
        "stubs/libcuda.so",
        "libjemalloc.so.2",
        "libnccl.so.2.18.3",
        "libnccl.so.2.27.5",
        "libcuda.so.1",
    ):
        (lib / name).write_text("")
    (lib / "libnccl.so.2").symlink_to("libnccl.so.2.18.3")
    machine = Machine(environment={"LD_PRELOAD": value.replace("LIB", str(lib))})
    installed = Packages(folders=(str(site),), versions={"nvidia-nccl-cu12": "2.27.5"})
    vars(machine)["packages"] = installed
    return machine


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("LIB/libtcmalloc.so.4", ["D662 warning"]),
        ("LIB/libjemalloc.so.2 LIB/gone.so", ["D662 warning"]),
        ("LIB/stubs/libcuda.so", ["D663 error"]),
        ("LIB/libcuda.so.1", ["D663 warning"]),
        ("LIB/libjemalloc.so.2:LIB/libnccl.so.2", ["D664 warning"]),
        ("LIB/libnccl.so.2.18.3", ["D664 warning"]),
        # An allocator, the framework's own version, and what only the dynamic loader can find.
        ("LIB/libjemalloc.so.2", []),
        ("LIB/libnccl.so.2.27.5", []),
        ("libtcmalloc.so.4", []),
        ("/usr/$LIB/libfoo.so".replace("$LIB", "$PLATFORM"), []),
    ],
)
def test_what_matters_to_the_gpu_is_reported(tmp_path: Path, value: str, found: list[str]):
    reading = ld_preload.read(machine_with(tmp_path, value))
    assert codes(ld_preload.evaluate(reading) if reading else ()) == found


def test_without_the_variable_nothing_is_looked_for():
    assert ld_preload.read(Machine(environment={})) is None
    assert ld_preload.read(Machine(environment={"LD_PRELOAD": " "})) is None
