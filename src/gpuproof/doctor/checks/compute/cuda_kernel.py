"""Compiles a small CUDA kernel and runs it on every GPU: tests the stack without any framework."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from gpuproof.doctor.check import Check, Layer
from gpuproof.doctor.checks.compute.framework_ops import crash_finding
from gpuproof.doctor.checks.compute.reading import ComputeReading, parse_answer
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
    """Result of the probe.

    Args:
        kernels: one record per GPU.
        compiler: whether NVRTC, CUDA's run-time compiler, was found.
    """

    compute: ComputeReading
    kernels: tuple[Record, ...]
    compiler: bool


def read(machine: Machine) -> Reading | None:
    """Compile and run; `None` if no GPU is visible."""
    if not visible_gpus(machine):
        return None
    folders = [*library_folders(machine.packages), *(str(machine.path(toolkit)) for toolkit in _TOOLKITS)]
    wanted = json.dumps({"names": NVRTC, "folders": folders})
    answer = machine.run_probe("compute_kernel", wanted, seconds=SECONDS)
    names = tuple(device.name for device in machine.cuda.devices)
    done = answer.one("done")
    return Reading(
        parse_answer("A CUDA kernel", answer, names),
        answer.of("kernel"),
        bool(done and done["nvrtc"]),
    )


def evaluate(reading: Reading) -> Iterator[Finding]:
    """D503 it crashes or hangs, D507 it fails, D508 its result is wrong."""
    if reading.compute.problem is not None:
        yield crash_finding(reading.compute)
    for kernel in reading.kernels:
        location = gpu_location(kernel["gpu"], reading.compute.name_of(kernel["gpu"]))
        if "error" in kernel:
            yield Finding(
                "D507",
                Severity.ERROR,
                f"A small CUDA kernel cannot be run on this GPU: {kernel['error']}.",
                (kernel["error"],),
                "Reboot; if that does not help, reinstall the driver. `sudo dmesg | grep -iE 'nvrm|xid'` may show the reason.",
                location,
            )
        elif kernel["wrong"]:
            yield Finding(
                "D508",
                Severity.ERROR,
                f"This GPU computes wrong sums: {kernel['wrong']} of {kernel['of']} differ from the CPU's.",
                (f"compiled for {kernel['target']}",),
                "Do not trust this GPU: stop and start the instance, which moves it to other hardware.",
                location,
            )


def summarize(reading: Reading) -> str | None:
    """`CUDA kernel correct on 1 GPU`."""
    correct = [kernel for kernel in reading.kernels if kernel.get("wrong") == 0]
    if correct:
        return f"CUDA kernel correct on {pluralize(len(correct), 'GPU')}"
    return None if reading.compiler else "no NVRTC to compile a CUDA kernel"


CHECK = Check("CUDA kernel", Layer.COMPUTE, read, evaluate, quick=False, summarize=summarize)
