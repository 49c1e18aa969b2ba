"""`device()`: a GPU, or an error that says why there is none. Never the CPU by itself."""

from __future__ import annotations

import os
import warnings
from typing import Any

from gpuproof.gpu.compute_capability import NONE, match_architectures
from gpuproof.gpu.diagnosis import diagnose
from gpuproof.runtime.contract import gpu_is_optional
from gpuproof.runtime.imported_frameworks import NAMES, TENSORFLOW, load, the_one
from gpuproof.runtime.stack_probe import read_stack
from gpuproof.util.log import say_once


class GpuRequired(RuntimeError):
    """No GPU can be used, and nobody allowed the CPU.

    Args:
        reason: why, in a sentence.
        remedy: what to do next.
        code: the diagnosis in a word, such as `driver-too-old`.
    """

    def __init__(self, reason: str, remedy: str, code: str = "unknown") -> None:
        super().__init__(
            f"{reason}\n  {remedy}\n  To run on the CPU all the same: allow_cpu=True, or 'require_gpu: false' in the job."
        )
        self.reason = reason
        self.remedy = remedy
        self.code = code


def device(framework: str | None = None, allow_cpu: bool = False) -> Any:
    """The device to work on: a `torch.device`, or TensorFlow's name for it (`/GPU:0`).

    With PyTorch a first operation is done on the GPU, so that a build without kernels for it is found out here. With
    TensorFlow nothing is started: `setup()` and `strategy()` may still come after. Under torchrun it is the GPU of
    `LOCAL_RANK`.

    Args:
        framework: `torch` or `tensorflow`; by itself the one that the script has imported.
        allow_cpu: give the CPU where there is no usable GPU, and say so once on standard error. A job with
            `require_gpu: false` allows it too.

    Raises:
        GpuRequired: there is no usable GPU; says why and what to do.
        NoFramework: no framework is imported or named.
    """
    name = the_one(framework)
    module = load(name)
    found, said = _tensorflow_device(module) if name == TENSORFLOW else _torch_device(module)
    if found is not None:
        return found
    fall_back_to_cpu(name, allow_cpu, said)
    return "/CPU:0" if name == TENSORFLOW else module.device("cpu")


def fall_back_to_cpu(framework: str, allow_cpu: bool, said: str | None = None) -> None:
    """Say that the CPU does the work, where that is allowed.

    Raises:
        GpuRequired: it is not.
    """
    why = diagnose(read_stack(framework, said))
    if not (allow_cpu or gpu_is_optional()):
        raise GpuRequired(f"{NAMES[framework]} cannot use a GPU: {why.reason}.", why.remedy, why.code)
    say_once(f"{NAMES[framework]} runs on the CPU: {why.reason}")


def torch_gpu_index(torch: Any) -> int:
    """The GPU of this process, from 0.

    Raises:
        GpuRequired: the host was given more processes than it has GPUs.
    """
    count = torch.cuda.device_count()
    local_rank = int(os.environ.get("LOCAL_RANK") or 0)
    if count == 1 and os.environ.get("CUDA_VISIBLE_DEVICES"):
        # A launcher may show each process a GPU of its own.
        return 0
    if local_rank < count:
        return local_rank
    raise GpuRequired(
        f"process {local_rank + 1} of this host has no GPU: there are {count}.",
        f"Start one process for each GPU: torchrun --nproc-per-node {count}",
        "too-many-processes",
    )


def _torch_device(torch: Any) -> tuple[Any, str | None]:
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        usable = torch.cuda.is_available()
    if not usable:
        return None, _first_line(str(heard[-1].message)) if heard else None
    for warning in heard:
        warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    device = torch.device("cuda", torch_gpu_index(torch))
    try:
        # Only work tells whether there are kernels for this GPU.
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
    carried = tensorflow.sysconfig.get_build_info().get("cuda_compute_capabilities", ())
    capability = tensorflow.config.experimental.get_device_details(gpu).get("compute_capability")
    if not capability or match_architectures(carried, tuple(capability))[0] != NONE:
        return None
    return f"it was compiled for {' '.join(carried)}, not for {'.'.join(map(str, capability))}"


def _first_line(text: str) -> str:
    return text.strip().split("\n", 1)[0]
