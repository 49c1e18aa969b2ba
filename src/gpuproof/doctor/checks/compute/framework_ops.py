"""Runs a matrix product and a convolution in every data type on every GPU, with each framework, and checks them."""

from __future__ import annotations

import json
from collections.abc import Iterator

from gpuproof.doctor.check import Check, Layer
from gpuproof.doctor.checks.compute.reading import ComputeReading, Operation, parse_answer
from gpuproof.doctor.checks.frameworks.builds import FRAMEWORK_NAMES
from gpuproof.doctor.checks.frameworks.gpu_architectures import kernel_support
from gpuproof.doctor.checks.frameworks.reading import read_stack
from gpuproof.doctor.gpu_names import gpu_location
from gpuproof.doctor.machine import Machine
from gpuproof.findings import Finding, Severity
from gpuproof.gpu.framework_probe import TENSORFLOW, TORCH, FrameworkReading
from gpuproof.util.humanize import format_bytes, join_words, pluralize

SECONDS = 300.0
PTX_SECONDS = 1800.0
"""If the driver compiles the framework's PTX first: TensorFlow's log mentions half an hour."""

_UNSUPPORTED_ERRORS = ("No OpKernel", "not implemented", "UnimplementedError", "not supported", "unsupported")
_OUT_OF_MEMORY_ERRORS = ("out of memory", "OOM", "ResourceExhausted")
_MAX_GROWN_SHARE = 0.5
"""Share of a GPU's memory that a framework with memory growth may use after small operations."""


def read_torch(machine: Machine) -> ComputeReading | None:
    """Compute with PyTorch; `None` if it sees no GPU."""
    return _read(machine, TORCH, machine.torch, "cuda")


def read_tensorflow(machine: Machine) -> ComputeReading | None:
    """Compute with TensorFlow; `None` if it sees no GPU."""
    return _read(machine, TENSORFLOW, machine.tensorflow, "GPU")


def evaluate(reading: ComputeReading) -> Iterator[Finding]:
    """D501 a wrong result, D502 an operation fails, D503 it crashes or hangs, D504 it ran elsewhere, D505 memory growth,
    D509 the GPU's memory is full."""
    if reading.problem is not None:
        yield crash_finding(reading)
    for operation in reading.operations:
        if (finding := _evaluate_operation(operation, reading)) is not None:
            yield finding
    if reading.memory_growth is not None:
        yield from _memory_growth(reading)


def summarize(reading: ComputeReading) -> str | None:
    """`PyTorch 2.11.0: matmul and convolution correct in float32, float16 and bfloat16 on 1 GPU`."""
    right = [operation for operation in reading.operations if operation.right]
    if not right:
        return None
    names, types, gpus = (
        list(dict.fromkeys(getattr(operation, field) for operation in right))
        for field in ("name", "dtype", "gpu")
    )
    return f"{reading.subject}: {join_words(names)} correct in {join_words(types)} on {pluralize(len(gpus), 'GPU')}"


def crash_finding(reading: ComputeReading) -> Finding:
    """D503: the process died or hung."""
    at = f" at {reading.step}" if reading.step else ""
    what = "hangs" if reading.hung else "crashes"
    return Finding(
        "D503",
        Severity.ERROR,
        f"{reading.subject} {what}{at}: {reading.problem}.",
        tuple(line for line in reading.error.strip().splitlines()[-6:] if line.strip()),
        "See `sudo dmesg | grep -iE 'nvrm|xid'`: an Xid there points to the GPU, none points to the software.",
    )


def _read(
    machine: Machine, name: str, reported: FrameworkReading | None, device: str
) -> ComputeReading | None:
    if reported is None or not reported.devices:
        return None
    seconds = PTX_SECONDS if _compiles_ptx(machine, name) else SECONDS
    answer = machine.run_probe(f"compute_{name}", json.dumps({"device": device}), seconds=seconds)
    return parse_answer(
        f"{FRAMEWORK_NAMES[name]} {reported.version}",
        answer,
        tuple(device.name for device in reported.devices),
    )


def _compiles_ptx(machine: Machine, name: str) -> bool:
    stack = read_stack(machine)
    if stack is None:
        return False
    builds = [build for build in stack.builds if build.framework == name]
    return any(
        kernel_support(build, device, stack).kind == "ptx" for build in builds for device in stack.devices
    )


def _evaluate_operation(operation: Operation, reading: ComputeReading) -> Finding | None:
    what = f"{operation.name} in {operation.dtype}"
    location = gpu_location(operation.gpu, reading.name_of(operation.gpu))
    if operation.error is not None:
        return _operation_failed(operation, what, reading)
    if operation.device is not None and not _is_on_gpu(operation):
        return Finding(
            "D504",
            Severity.ERROR,
            f"{reading.subject} was to compute {what} on GPU {operation.gpu}, but did it on {operation.device}.",
            (f"device of the result: {operation.device}",),
            "A job would train on another device than it requests; report it to the framework with this output.",
            location,
        )
    if operation.right:
        return None
    return Finding(
        "D501",
        Severity.ERROR,
        f"{reading.subject} computes {what} wrongly on this GPU: it differs by {operation.deviation:.1e} from the CPU's result.",
        (
            f"largest deviation {operation.deviation:.3g}, allowed {operation.tolerance:g} of the largest value",
        ),
        "Do not trust this GPU: run `gpuproof doctor --full` again; if it persists, stop and start the instance, which moves "
        "it to other hardware.",
        location,
    )


def _operation_failed(operation: Operation, what: str, reading: ComputeReading) -> Finding | None:
    error = operation.error or ""
    if any(word in error for word in _UNSUPPORTED_ERRORS):
        return None  # the framework does not support it, which is not a fault of this machine
    location = gpu_location(operation.gpu, reading.name_of(operation.gpu))
    first = error.strip().splitlines()[0]
    if any(word in error for word in _OUT_OF_MEMORY_ERRORS):
        return Finding(
            "D509",
            Severity.WARNING,
            f"{reading.subject} could not compute {what}: the GPU's memory is full.",
            (first,),
            "`nvidia-smi` shows which processes use it; end unneeded ones, or wait.",
            location,
        )
    return Finding(
        "D502",
        Severity.ERROR,
        f"{reading.subject} fails to compute {what} on this GPU: {first}",
        _lines(error),
        "Paste the text into `gpuproof explain -`, which knows many such errors.",
        location,
    )


def _memory_growth(reading: ComputeReading) -> Iterator[Finding]:
    growth = reading.memory_growth or {}
    taken, total, error = growth.get("taken"), growth.get("total"), growth.get("error")
    if error is not None:
        reason = str(error)
    elif taken and total and taken > _MAX_GROWN_SHARE * total:
        reason = f"small operations took {format_bytes(taken)} of {format_bytes(total)}"
    else:
        return
    yield Finding(
        "D505",
        Severity.WARNING,
        f"Memory growth does not work with {reading.subject}: {reason}.",
        (reason,),
        "Check TF_FORCE_GPU_ALLOW_GROWTH and TF_GPU_ALLOCATOR in the environment.",
        gpu_location(0, reading.name_of(0)),
    )


def _is_on_gpu(operation: Operation) -> bool:
    device = (operation.device or "").lower()
    return device == f"cuda:{operation.gpu}" or device.endswith(f"device:gpu:{operation.gpu}")


def _lines(text: str) -> tuple[str, ...]:
    return tuple(line.strip() for line in text.strip().splitlines()[:6] if line.strip())


TORCH_CHECK = Check("PyTorch computes", Layer.COMPUTE, read_torch, evaluate, quick=False, summarize=summarize)
TENSORFLOW_CHECK = Check(
    "TensorFlow computes", Layer.COMPUTE, read_tensorflow, evaluate, quick=False, summarize=summarize
)
