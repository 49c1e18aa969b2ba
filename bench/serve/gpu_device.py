"""Where `bench/serve_gpu.py` measures: one GPU that PyTorch can use, or this machine's CPU."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version

from gpuproof.gpu.nvml import GpuInfo, Nvml, NvmlUnavailable, library_present
from gpuproof.serve.workers.device_assignment import VISIBLE, visible_gpus

from . import report

_BF16_SINCE = (8, 0)
"""Compute capability from which on tensor cores take bfloat16: Ampere's (CUDA C++ Programming Guide, 5.4.1)."""
_ASK = (
    "import json, torch; there = torch.cuda.is_available(); "
    "print(json.dumps({'torch': torch.__version__, 'there': there, 'cuda': torch.version.cuda, "
    "'cudnn': torch.backends.cudnn.version() if there else None}))"
)


class NoGpu(Exception):
    """Raised if there is no CUDA GPU to measure on; the message is the reason."""


@dataclass(frozen=True)
class BenchDevice:
    """Where bare loop and server compute.

    Args:
        words: description of device, driver, PyTorch and machine, for the report.
        slug: the device for a file's name.
        half: the type for mixed precision, `bf16` or `fp16`.
        environment: of every measured process, in which only this device is visible.
        flags: of `gpuproof serve`.
        index: the GPU's for NVML; `None` on the CPU.
    """

    words: str
    slug: str
    half: str
    environment: Mapping[str, str]
    flags: tuple[str, ...] = ()
    index: int | None = None


def cpu() -> BenchDevice:
    """This machine's CPU, whatever GPUs it has."""
    words = f"The CPU of {report.machine()}; PyTorch {version('torch')}, Python {platform.python_version()}"
    return BenchDevice(words, f"cpu-{report.file_words()}", "bf16", {VISIBLE: ""})


def gpu() -> BenchDevice:
    """The first GPU that `CUDA_VISIBLE_DEVICES` makes visible.

    Raises:
        NoGpu: if there is none, or PyTorch cannot use it.
    """
    try:
        if not library_present():
            raise NoGpu("there is no NVIDIA driver here")
        with Nvml.open() as nvml:
            gpus, driver = nvml.gpus(), nvml.driver_version()
    except NvmlUnavailable as error:
        raise NoGpu(error.reason) from error
    info = _chosen(gpus, os.environ)
    environment = {VISIBLE: str(info.index), "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    torch = _torch(environment, info)
    total = f"{info.memory_total / 2**30:.0f} GiB, " if info.memory_total else ""
    words = (
        f"{info.name} ({total}driver {driver}); PyTorch {torch['torch']} with CUDA {torch['cuda']} and "
        f"cuDNN {torch['cudnn']}, Python {platform.python_version()}; {report.machine()}"
    )
    half = "bf16" if (info.compute_capability or (0, 0)) >= _BF16_SINCE else "fp16"
    return BenchDevice(words, slug(info.name or "gpu"), half, environment, ("--require-gpu",), info.index)


def slug(name: str) -> str:
    """A device's name in the form used in file names: `nvidia-a10g`."""
    return "".join(letter if letter.isalnum() else "-" for letter in name.lower())


def _chosen(gpus: tuple[GpuInfo, ...], environ: Mapping[str, str]) -> GpuInfo:
    visible = visible_gpus(environ, len(gpus))
    if not visible:
        hidden = f"{VISIBLE} is {environ.get(VISIBLE)!r}" if gpus else "NVML counts none"
        raise NoGpu(hidden)
    for info in gpus:
        if visible[0] == str(info.index) or (info.uuid or "").startswith(visible[0]):
            return info
    raise NoGpu(f"{VISIBLE} names {visible[0]}, which NVML does not know")


def _torch(environment: Mapping[str, str], info: GpuInfo) -> dict[str, str]:
    """What PyTorch reports, from a separate process: this one must not hold a CUDA context."""
    done = subprocess.run(
        [sys.executable, "-c", _ASK], env={**os.environ, **environment}, capture_output=True, text=True
    )
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        raise NoGpu(f"PyTorch cannot be asked whether it sees the {info.name}: {last[0]}")
    reported = json.loads(done.stdout)
    if not reported["there"]:
        raise NoGpu(
            f"PyTorch {reported['torch']} does not see the {info.name}, which NVML names; `gpuproof doctor` says why"
        )
    return reported
