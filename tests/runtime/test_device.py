"""`device()` with real frameworks, on machines that the stub driver shows: never silently the CPU."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from support.nvml_stub import DRIVER_NOT_LOADED, Scenario
from support.runtime_script import Script

Machine = Callable[..., Scenario]

ASK_TORCH = """
import torch, gpuproof.runtime as rt
try:
    print(rt.device())
except rt.GpuRequired as error:
    print(error.code, "|", error)
"""
ASK_TENSORFLOW = ASK_TORCH.replace("import torch", "import tensorflow")

pytestmark = pytest.mark.slow


def test_torch_on_a_laptop_raises_and_names_what_is_missing(script: Script) -> None:
    output = script(ASK_TORCH, imported="torch")
    assert output.startswith("no-driver | PyTorch cannot use a GPU: this machine has no NVIDIA driver")
    assert "allow_cpu=True, or 'require_gpu: false'" in output


def test_a_cpu_build_of_torch_beside_a_sound_driver_is_named(script: Script, gpu_machine: Machine) -> None:
    gpu_machine()
    output = script(ASK_TORCH)
    assert output.startswith("cpu-build | PyTorch cannot use a GPU: PyTorch 2.")
    assert "CPU-only build" in output


def test_a_cpu_build_of_tensorflow_beside_a_sound_driver_is_named(
    script: Script, gpu_machine: Machine
) -> None:
    gpu_machine()
    output = script(ASK_TENSORFLOW)
    assert output.startswith("cpu-build | TensorFlow cannot use a GPU: TensorFlow 2.")
    assert "tensorflow[and-cuda]" in output


def test_hidden_gpus_are_found_before_the_build_is_blamed(script: Script, gpu_machine: Machine) -> None:
    gpu_machine(count=4)
    output = script(ASK_TORCH, CUDA_VISIBLE_DEVICES="")
    assert output.startswith("hidden | ")
    assert "hides every GPU of this machine (4 x NVIDIA A10G)" in output


def test_a_driver_that_is_not_loaded_is_found(script: Script, gpu_machine: Machine) -> None:
    gpu_machine().fail("nvmlInit", DRIVER_NOT_LOADED).write()
    assert script(ASK_TORCH).startswith("driver-broken | ")


@pytest.mark.parametrize(("argument", "variable"), [("allow_cpu=True", "1"), ("", "0")])
def test_the_cpu_is_returned_where_it_is_allowed_with_one_warning(
    script: Script, argument: str, variable: str
) -> None:
    code = f"import torch, gpuproof.runtime as rt\nprint(rt.device({argument}), rt.device({argument}))"
    done = script.done(code, imported="torch", GPUPROOF_REQUIRE_GPU=variable)
    assert done.stdout == "cpu cpu\n"
    assert done.stderr.count("PyTorch runs on the CPU: this machine has no NVIDIA driver") == 1


FAKE_CUDA = """
import warnings, torch, gpuproof.runtime as rt
{fakes}
try:
    print(rt.device())
except rt.GpuRequired as error:
    print(error.code, "|", error)
"""


def test_what_torch_warns_of_an_old_driver_is_in_the_reason(script: Script, gpu_machine: Machine) -> None:
    # A build with CUDA 13 on the stub's driver for 12.4, as far as a CPU build can stand for one.
    gpu_machine()
    fakes = """
torch.version.cuda = "13.0"
torch._C._cuda_getArchFlags = lambda: "sm_75 sm_86"
"""
    output = script(FAKE_CUDA.format(fakes=fakes))
    assert output.startswith("driver-too-old | ")
    assert "built with CUDA 13.0, and driver 550.54.15 supports CUDA 12.4 at most" in output


def test_a_gpu_on_which_no_operation_runs_is_not_used(script: Script, gpu_machine: Machine) -> None:
    gpu_machine("Tesla V100-SXM2-16GB", (7, 0))
    fakes = """
torch.version.cuda = "12.4"
torch._C._cuda_getArchFlags = lambda: "sm_75 sm_86"
torch.cuda.is_available = lambda: True
torch.cuda.device_count = lambda: 1
def no_kernel(*_, **__):
    raise RuntimeError("CUDA error: no kernel image is available for execution on the device")
torch.ones = no_kernel
"""
    output = script(FAKE_CUDA.format(fakes=fakes))
    assert output.startswith("no-kernels | ")
    assert "no kernels for Tesla V100-SXM2-16GB (compute capability 7.0)" in output


def test_more_processes_than_gpus_are_reported_with_the_number_to_start(script: Script) -> None:
    fakes = "torch.cuda.is_available = lambda: True\ntorch.cuda.device_count = lambda: 2"
    output = script(FAKE_CUDA.format(fakes=fakes), imported="torch", LOCAL_RANK="3")
    assert output.startswith("too-many-processes | process 4 of this host has no GPU: the host has 2")
    assert "torchrun --nproc-per-node 2" in output


def test_without_an_imported_framework_the_framework_must_be_named(script: Script) -> None:
    done = script.done("import gpuproof.runtime as rt\nrt.device()")
    assert "import it first, or set framework='torch'" in done.stderr
    assert done.returncode == 1


def test_a_framework_of_another_name_is_refused(script: Script, tmp_path: Path) -> None:
    assert (
        "framework='jax': use 'tensorflow' (also for Keras) or 'torch'"
        in script.done("import gpuproof.runtime as rt\nrt.device('jax')").stderr
    )
