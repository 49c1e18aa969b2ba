"""A CUDA kernel of our own, compiled at run time and launched on every GPU: the stack without any framework."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from gpuproof.doctor.check import Check, Layer
from gpuproof.doctor.checks.compute.framework_ops import broke_off
from gpuproof.doctor.checks.compute.reading import ComputeReading, understand
from gpuproof.doctor.checks.frameworks.reading import visible_gpus
from gpuproof.doctor.checks.libraries.cuda_libraries import library_folders
from gpuproof.doctor.gpu_names import gpu_location
from gpuproof.doctor.machine import Machine
from gpuproof.findings import Finding, Severity
from gpuproof.gpu.probe_process import Record
from gpuproof.util.humanize import pluralize

SECONDS = 120.0
NVRTC = ("libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2")
_TOOLKITS = ("/usr/local/cuda/lib64", "/usr/local/cuda/targets/x86_64-linux/lib")


@dataclass(frozen=True)
class Reading:
    """What the probe told.

    Args:
        kernels: a record a GPU.
        compiler: whether an NVRTC was found.
    """

    compute: ComputeReading
    kernels: tuple[Record, ...]
    compiler: bool


def read(machine: Machine) -> Reading | None:
    """Compiles and launches; `None` where no GPU is visible."""
    if not visible_gpus(machine):
        return None
    folders = [*library_folders(machine.packages), *(str(machine.path(one)) for one in _TOOLKITS)]
    wanted = json.dumps({"names": NVRTC, "folders": folders})
    answer = machine.run_probe("compute_kernel", wanted, seconds=SECONDS)
    names = tuple(device.name for device in machine.cuda.devices)
    done = answer.one("done")
    return Reading(
        understand("A CUDA kernel of our own", answer, names),
        answer.of("kernel"),
        bool(done and done["nvrtc"]),
    )


def evaluate(reading: Reading) -> Iterator[Finding]:
    """D503 it crashes or hangs, D507 it fails, D508 its answer is wrong."""
    if reading.compute.problem is not None:
        yield broke_off(reading.compute)
    for kernel in reading.kernels:
        place = gpu_location(kernel["gpu"], reading.compute.name_of(kernel["gpu"]))
        if "error" in kernel:
            yield Finding(
                "D507",
                Severity.ERROR,
                f"A small CUDA kernel cannot be run on this GPU: {kernel['error']}.",
                (kernel["error"],),
                "Reboot; if it stays, reinstall the driver. `sudo dmesg | grep -iE 'nvrm|xid'` may have the reason.",
                place,
            )
        elif kernel["wrong"]:
            yield Finding(
                "D508",
                Severity.ERROR,
                f"This GPU adds wrongly: {kernel['wrong']} of {kernel['of']} sums differ from the CPU's.",
                (f"compiled for {kernel['target']}",),
                "Do not trust this GPU: stop and start the instance, which moves it to other hardware.",
                place,
            )


def summarize(reading: Reading) -> str | None:
    """`a CUDA kernel of our own right on 1 GPU`."""
    right = [kernel for kernel in reading.kernels if kernel.get("wrong") == 0]
    if right:
        return f"a CUDA kernel of our own right on {pluralize(len(right), 'GPU')}"
    return None if reading.compiler else "no NVRTC here to compile a kernel of our own"


CHECK = Check("a CUDA kernel of our own", Layer.COMPUTE, read, evaluate, quick=False, summarize=summarize)
