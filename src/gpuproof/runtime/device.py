"""`device()`: a usable GPU, or an error with the reason; the CPU only if allowed."""

from __future__ import annotations

import os
import warnings
from typing import Any

from gpuproof.gpu.compute_capability import NONE, match_architectures
from gpuproof.gpu.diagnosis import diagnose
from gpuproof.runtime.contract import gpu_is_optional
from gpuproof.runtime.imported_frameworks import FRAMEWORK_NAMES, TENSORFLOW, load_module, resolve_framework
from gpuproof.runtime.ranks import local_rank
from gpuproof.runtime.stack_probe import read_stack
from gpuproof.util.log import log_once


class GpuRequired(RuntimeError):
    """No GPU is usable, and the CPU is not allowed.

    Args:
        reason: why no GPU is usable.
        code: the diagnosis as a stable identifier, such as `driver-too-old`.
    """

    def __init__(self, reason: str, remedy: str, code: str = "unknown") -> None:
        super().__init__(
            f"{reason}\n  {remedy}\n  To run on the CPU anyway: allow_cpu=True, or 'require_gpu: false' in the job."
        )
        self.reason = reason
        self.remedy = remedy
        self.code = code


def device(framework: str | None = None, allow_cpu: bool = False) -> Any:
    """Return the device to compute on: a `torch.device`, or TensorFlow's name for it (`/GPU:0`).

    With PyTorch, it runs an operation on the GPU, which detects a build without kernels for it. With TensorFlow, it
    initializes nothing, so `setup()` and `strategy()` can follow. Under torchrun and MPI, it is the GPU of the local rank.

    Args:
        framework: `torch` or `tensorflow`; by default the one that the script has imported.
        allow_cpu: return the CPU if no GPU is usable, with one message on standard error. A job with
            `require_gpu: false`, or on an instance type without GPUs, allows it, too.

    Raises:
        GpuRequired: no GPU is usable; with reason and remedy.
        NoFramework: no framework is imported or given.
        ModuleNotFoundError: the framework is not installed.
        ValueError: the framework is neither TensorFlow nor PyTorch.
    """
    if isinstance(framework, int):
        raise ValueError(
            f"device({framework}): it takes no index; under torchrun it is the GPU of LOCAL_RANK. "
            f"To use GPU {framework}: setup(visible_devices={framework}) before the first operation"
        )
    name = resolve_framework(framework)
    module = load_module(name)
    usable_device, problem = _tensorflow_device(module) if name == TENSORFLOW else _torch_device(module)
    if usable_device is not None:
        return usable_device
    fall_back_to_cpu(name, allow_cpu, problem)
    return "/CPU:0" if name == TENSORFLOW else module.device("cpu")


def fall_back_to_cpu(framework: str, allow_cpu: bool, problem: str | None = None) -> None:
    """Print that the CPU does the work, if that is allowed.

    Args:
        problem: what the framework reported when it was asked for a GPU.

    Raises:
        GpuRequired: the CPU is not allowed.
    """
    diagnosis = diagnose(read_stack(framework, problem))
    if not (allow_cpu or gpu_is_optional()):
        raise GpuRequired(
            f"{FRAMEWORK_NAMES[framework]} cannot use a GPU: {diagnosis.reason}.",
            diagnosis.remedy,
            diagnosis.code,
        )
    log_once(f"{FRAMEWORK_NAMES[framework]} runs on the CPU: {diagnosis.reason}")


def torch_gpu_index(torch: Any) -> int:
    """Index of this process's GPU, from 0.

    Raises:
        GpuRequired: the host has more processes than GPUs.
    """
    count = torch.cuda.device_count()
    index = local_rank() or 0
    if count == 1 and os.environ.get("CUDA_VISIBLE_DEVICES"):
        # A launcher may show each process only its own GPU.
        return 0
    if index < count:
        return index
    raise GpuRequired(
        f"process {index + 1} of this host has no GPU: the host has {count}.",
        f"Start one process per GPU: torchrun --nproc-per-node {count}",
        "too-many-processes",
    )


def _torch_device(torch: Any) -> tuple[Any, str | None]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        usable = torch.cuda.is_available()
    if not usable:
        return None, _first_line(str(caught[-1].message)) if caught else None
    for warning in caught:
        warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    device = torch.device("cuda", torch_gpu_index(torch))
    try:
        # Only an operation shows whether there are kernels for this GPU.
        torch.ones(1, device=device).add_(1).item()
    except RuntimeError as error:
        return None, _first_line(str(error))
    return device, None


def _tensorflow_device(tensorflow: Any) -> tuple[str | None, str | None]:
    gpus = tensorflow.config.get_visible_devices("GPU")
    if not gpus:
        return None, None
    problem = _without_tensorflow_kernels(tensorflow, gpus[0])
    return (None, problem) if problem else ("/GPU:0", None)


def _without_tensorflow_kernels(tensorflow: Any, gpu: Any) -> str | None:
    architectures = tensorflow.sysconfig.get_build_info().get("cuda_compute_capabilities", ())
    capability = tensorflow.config.experimental.get_device_details(gpu).get("compute_capability")
    if not capability or match_architectures(architectures, tuple(capability))[0] != NONE:
        return None
    return f"it was compiled for {' '.join(architectures)}, not for {'.'.join(map(str, capability))}"


def _first_line(text: str) -> str:
    return text.strip().split("\n", 1)[0]
