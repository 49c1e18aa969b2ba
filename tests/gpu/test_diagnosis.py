"""Why a framework gets no GPU: each broken layer is found, the lowest first."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuproof.gpu.diagnosis import StackReading, diagnose, visible_gpus
from gpuproof.gpu.nvml import GpuInfo

A10G = GpuInfo(0, uuid="GPU-aaaa1111", name="NVIDIA A10G", compute_capability=(8, 6))
V100 = GpuInfo(0, uuid="GPU-bbbb2222", name="Tesla V100", compute_capability=(7, 0))
SOUND = StackReading(
    framework="torch",
    version="2.15.0",
    cuda_build=True,
    cuda="13.0",
    architectures=("sm_75", "sm_80", "sm_86", "sm_90"),
    driver="595.91.07",
    driver_cuda=(13, 2),
    gpus=(A10G,),
)
BROKEN = {
    "no-driver": {
        "no_driver": True,
        "libcuda": False,
        "gpus": (),
        "nvml_problem": "there is no NVIDIA driver here",
    },
    "driver-broken": {"gpus": (), "nvml_problem": "the driver was updated and not loaded again"},
    "no-libcuda": {"libcuda": False},
    "no-gpu": {"gpus": ()},
    "hidden": {"visible_devices": ""},
    "cpu-build": {"cuda_build": False, "cuda": None, "architectures": ()},
    "driver-too-old": {"driver": "550.54.15", "driver_cuda": (12, 4)},
    "libraries-missing": {"missing_libraries": ("libcudnn.so.9",)},
    "no-kernels": {"gpus": (V100,)},
    "unknown": {"said": "CUDA error: out of memory"},
}


@pytest.mark.parametrize("code", BROKEN)
def test_a_broken_layer_is_found(code: str) -> None:
    assert diagnose(replace(SOUND, **BROKEN[code])).code == code


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("hidden", "CUDA_VISIBLE_DEVICES='' hides every GPU of this machine (1 x NVIDIA A10G)"),
        ("cpu-build", "PyTorch 2.15.0 is a CPU-only build"),
        ("driver-too-old", "built with CUDA 13.0, and driver 550.54.15 supports CUDA 12.4 at most"),
        (
            "no-kernels",
            "no kernels for Tesla V100 (compute capability 7.0): it was compiled for sm_75 sm_80 sm_86 sm_90",
        ),
        ("libraries-missing", "cannot load required CUDA libraries: libcudnn.so.9"),
        ("unknown", "its message: CUDA error: out of memory"),
    ],
)
def test_the_reason_names_this_machines_own_readings(code: str, words: str) -> None:
    assert words in diagnose(replace(SOUND, **BROKEN[code])).reason


def test_the_lowest_broken_layer_goes_before_all_others() -> None:
    everything = {name: value for readings in reversed(BROKEN.values()) for name, value in readings.items()}
    assert diagnose(replace(SOUND, **everything)).code == "no-driver"


def test_plain_tensorflow_gets_the_advice_to_install_its_libraries() -> None:
    reading = replace(
        SOUND, framework="tensorflow", version="2.21.0", cuda="12.5", missing_libraries=("libcudart.so.12",)
    )
    assert "pip install 'tensorflow[and-cuda]==2.21.0'" in diagnose(reading).remedy


def test_a_driver_of_the_same_major_version_is_new_enough() -> None:
    # CUDA's minor version compatibility: no false alarm.
    reading = replace(SOUND, cuda="12.9", driver_cuda=(12, 4))
    assert diagnose(reading).code == "unknown"


def test_ptx_newer_than_the_driver_cannot_be_compiled_by_it() -> None:
    reading = replace(SOUND, cuda="12.9", driver_cuda=(12, 4), architectures=("compute_80",))
    assert diagnose(reading).code == "no-kernels"


def test_an_instance_type_without_a_gpu_is_named() -> None:
    reading = replace(SOUND, **BROKEN["no-driver"], expected_gpus=0, instance_type="ml.t3.2xlarge")
    found = diagnose(reading)
    assert (found.code, "ml.t3.2xlarge" in found.reason) == ("no-gpu", True)


@pytest.mark.parametrize(
    ("setting", "shown"),
    [
        (None, [0, 1]),
        ("1", [1]),
        ("1,0", [1, 0]),
        ("0,7,1", [0]),
        ("-1", []),
        ("NoDevFiles", []),
        ("GPU-bbbb", [1]),
        (" 1 , 0", [1, 0]),
    ],
)
def test_cuda_visible_devices_is_read_as_cuda_reads_it(setting: str | None, shown: list[int]) -> None:
    gpus = (A10G, replace(V100, index=1))
    assert [gpu.index for gpu in visible_gpus(setting, gpus)] == shown
