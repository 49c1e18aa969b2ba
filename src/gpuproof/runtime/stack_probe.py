"""Reads driver, GPUs, libraries and framework for `gpuproof.gpu.diagnosis`; never raises."""

from __future__ import annotations

import ctypes
import importlib.util
import os
from pathlib import Path
from typing import Any

from gpuproof.gpu.cuda_libraries import cuda_libraries
from gpuproof.gpu.diagnosis import StackReading
from gpuproof.gpu.nvml import GpuInfo, Nvml, NvmlUnavailable
from gpuproof.runtime.contract import expected_gpus
from gpuproof.runtime.imported_frameworks import TENSORFLOW, TORCH, imported_module
from gpuproof.util.versions import version_key


def read_stack(framework: str | None, said: str | None = None) -> StackReading:
    """Read the machine and, if the script has imported it, the framework.

    Args:
        framework: `torch` or `tensorflow`.
        said: what the framework reported when it was asked for a GPU.
    """
    machine = _read_machine()
    if framework == TORCH and imported_module(TORCH) is not None:
        machine.update(_read_torch(imported_module(TORCH)))
    if framework == TENSORFLOW and imported_module(TENSORFLOW) is not None:
        machine.update(_read_tensorflow(imported_module(TENSORFLOW)))
    return StackReading(framework=framework, said=said, **machine)


def read_gpus() -> tuple[GpuInfo, ...]:
    """Read the GPUs that NVML sees; empty if NVML cannot be used."""
    try:
        with Nvml.open() as nvml:
            return nvml.gpus()
    except NvmlUnavailable:
        return ()


def _read_machine() -> dict[str, Any]:
    driver_cuda, libcuda = _read_driver_cuda()
    found: dict[str, Any] = {
        "libcuda": libcuda,
        "driver_cuda": driver_cuda,
        "visible_devices": os.environ.get("CUDA_VISIBLE_DEVICES"),
        "expected_gpus": expected_gpus(),
        "instance_type": os.environ.get("SM_CURRENT_INSTANCE_TYPE"),
    }
    try:
        with Nvml.open() as nvml:
            found.update(driver=nvml.driver_version(), gpus=nvml.gpus())
    except NvmlUnavailable as problem:
        found.update(nvml_problem=problem.reason, no_driver=problem.library_missing)
    return found


def _read_driver_cuda() -> tuple[tuple[int, int] | None, bool]:
    """CUDA version of the driver's library, and whether the library can be loaded."""
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None, False
    version = ctypes.c_int()
    # Works without cuInit, so it initializes nothing on the GPU.
    if library.cuDriverGetVersion(ctypes.byref(version)) != 0:
        return None, True
    return (version.value // 1000, version.value % 1000 // 10), True


def _read_torch(torch: Any) -> dict[str, Any]:
    cuda = torch.version.cuda
    flags = getattr(torch._C, "_cuda_getArchFlags", None)  # noqa: SLF001 - the public list is empty without a GPU
    architectures = flags() if flags is not None and cuda is not None else None
    return {
        "version": torch.__version__,
        "cuda_build": cuda is not None,
        "cuda": cuda,
        "architectures": tuple(architectures.split()) if architectures else (),
    }


def _read_tensorflow(tensorflow: Any) -> dict[str, Any]:
    info = tensorflow.sysconfig.get_build_info()
    built = bool(info.get("is_cuda_build", False))
    cuda = info.get("cuda_version")
    return {
        "version": tensorflow.__version__,
        "cuda_build": built,
        "cuda": cuda,
        "architectures": tuple(info.get("cuda_compute_capabilities", ())),
        "missing_libraries": _missing_libraries(cuda, info.get("cudnn_version")) if built and cuda else (),
    }


def _missing_libraries(cuda: str, cudnn: str | None) -> tuple[str, ...]:
    names = [library.soname for library in cuda_libraries(version_key(cuda)[0])]
    if cudnn:
        names.append(f"libcudnn.so.{cudnn.split('.')[0]}")
    return tuple(name for name in names if not _is_loadable(name))


def _is_loadable(name: str) -> bool:
    try:
        ctypes.CDLL(name)
    except OSError:
        return any(folder.joinpath(name).exists() for folder in _wheel_folders())
    return True


def _wheel_folders() -> list[Path]:
    """Folders of the libraries in NVIDIA's wheels, which TensorFlow searches, too."""
    spec = importlib.util.find_spec("nvidia")
    roots = list(spec.submodule_search_locations or ()) if spec is not None else []
    return [folder for root in roots for folder in Path(root).glob("*/lib")]
