"""Probing frameworks in separate processes: the real CPU builds and their logs."""

import json
import os
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from gpuproof.gpu.framework_probe import (
    TENSORFLOW,
    TORCH,
    cudnn_version,
    gpu_lines,
    read_framework,
    read_packages,
)
from gpuproof.gpu.probe_process import Answer, ask

needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
needs_tensorflow = pytest.mark.skipif(find_spec("tensorflow") is None, reason="tensorflow is not installed")


def test_packages_are_read_from_the_names_of_folders() -> None:
    packages = read_packages(sys.executable, os.environ)
    assert packages.problem is None
    assert packages.python.startswith("3.")
    assert packages.versions["nvidia-ml-py"]
    assert packages.virtual is (sys.prefix != sys.base_prefix)


def test_the_cuda_of_torchvision_is_read_from_its_code(tmp_path: Path) -> None:
    metadata = tmp_path / "torchvision-0.26.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(
        "Name: torchvision\nRequires-Dist: numpy\nRequires-Dist: torch==2.11.0\nRequires-Dist: pillow\n\ntext"
    )
    (tmp_path / "torchvision").mkdir()
    (tmp_path / "torchvision" / "version.py").write_text("__version__ = '0.26.0+cu130'\ngit_version = 'a'\n")
    packages = read_packages(sys.executable, {**os.environ, "PYTHONPATH": str(tmp_path)})
    assert packages.built == {"torchvision": "0.26.0+cu130"}
    assert packages.requires["torchvision"] == ("numpy", "torch==2.11.0")


@needs_torch
@pytest.mark.slow
def test_a_cpu_build_of_torch_is_recognized() -> None:
    import torch

    reading = read_framework(TORCH, sys.executable, os.environ)
    assert reading.version == torch.__version__
    assert reading.problem is None
    assert reading.numpy_error is None
    if torch.version.cuda is None:
        assert (reading.cuda, reading.devices, reading.architectures) == (None, (), ())


@needs_tensorflow
@pytest.mark.slow
def test_a_cpu_build_of_tensorflow_is_recognized() -> None:
    reading = read_framework(TENSORFLOW, sys.executable, os.environ)
    assert reading.version
    assert (reading.problem, reading.broken) == (None, None)
    if "tensorflow-cpu" in read_packages(sys.executable, os.environ).versions:
        assert (reading.cuda, reading.devices) == (None, ())


def test_a_framework_that_is_not_installed_cannot_be_imported() -> None:
    if find_spec("torch") is None:
        assert "ModuleNotFoundError" in (read_framework(TORCH, sys.executable, os.environ).broken or "")
    else:
        bare = {**os.environ, "PYTHONHOME": "", "PYTHONPATH": ""}
        base = sys._base_executable  # the same Python without the virtual environment's packages
        reading = read_framework(TORCH, base, {**bare, "PYTHONNOUSERSITE": "1"})
        assert "ModuleNotFoundError" in (reading.broken or "")


def all_right(answer: Answer) -> list[str]:
    assert answer.problem is None, answer.error
    works = answer.of("work")
    assert all("error" not in work and work["deviation"] <= work["tolerance"] for work in works), works
    return [f"{work['name']} {work['dtype']}" for work in works]


TYPES = ("float32", "float16", "bfloat16")
WORKS = [f"{name} {dtype}" for dtype in TYPES for name in ("matmul", "convolution")]


@needs_torch
@pytest.mark.slow
def test_what_torch_computes_is_what_the_cpu_computes_within_the_tolerance() -> None:
    wanted = json.dumps({"device": "cpu"})
    answer = ask(sys.executable, "compute_torch", wanted, environment=os.environ, seconds=300)
    assert all_right(answer) == WORKS
    assert all(work["device"] == "cpu" for work in answer.of("work"))


@needs_tensorflow
@pytest.mark.slow
def test_what_tensorflow_computes_is_what_the_cpu_computes_within_the_tolerance() -> None:
    wanted = json.dumps({"device": "CPU"})
    answer = ask(sys.executable, "compute_tensorflow", wanted, environment=os.environ, seconds=300)
    assert all_right(answer) == [*WORKS, "tf.function float32"]
    assert all(work["device"].endswith("device:CPU:0") for work in answer.of("work"))


@pytest.mark.parametrize(
    ("number", "version"),
    [(91002, "9.10.2"), (90100, "9.1.0"), (8902, "8.9.2"), (8200, "8.2.0"), (0, None), (None, None)],
)
def test_cudnn_counts_its_versions_in_two_ways(number: int | None, version: str | None) -> None:
    assert cudnn_version(number) == version


def test_of_a_log_only_what_speaks_of_gpus_is_kept_once_and_without_its_place() -> None:
    log = """
2026-11-21 10:00:00.123456: I tensorflow/core/platform/cpu_feature_guard.cc:210] This TensorFlow binary is optimized
WARNING: All log messages before absl::InitializeLog() is called are written to STDERR
E0000 00:00:1795266378.987829   21303 cuda_executor.cc:1228] INTERNAL: CUDA Runtime error: Failed call to cudaGetRuntimeVersion
W0000 00:00:1795266378.987829   21303 gpu_device.cc:2342] Cannot dlopen some GPU libraries. Please make sure
W0000 00:00:1795266379.987829   21303 gpu_device.cc:2342] Cannot dlopen some GPU libraries. Please make sure
2026-11-21 10:00:00.123456: E tensorflow/stream_executor/cuda/cuda_blas.cc:2981] Unable to register cuBLAS factory: Attempting to register factory for plugin cuBLAS
"""
    assert gpu_lines(log) == (
        "INTERNAL: CUDA Runtime error: Failed call to cudaGetRuntimeVersion",
        "Cannot dlopen some GPU libraries. Please make sure",
    )
