"""Real work on every GPU with each framework: a matrix product and a convolution in every type, checked."""

from __future__ import annotations

import json
from collections.abc import Iterator

from gpuproof.doctor.check import Check, Layer
from gpuproof.doctor.checks.compute.reading import ComputeReading, Work, understand
from gpuproof.doctor.checks.frameworks.builds import NAMES
from gpuproof.doctor.checks.frameworks.gpu_architectures import fit_of
from gpuproof.doctor.checks.frameworks.reading import read_stack
from gpuproof.doctor.gpu_names import gpu_location
from gpuproof.doctor.machine import Machine
from gpuproof.findings import Finding, Severity
from gpuproof.gpu.framework_probe import TENSORFLOW, TORCH, FrameworkReading
from gpuproof.util.humanize import format_bytes, join_words, pluralize

SECONDS = 300.0
PTX_SECONDS = 1800.0
"""Where the driver compiles a framework's PTX first: TensorFlow itself speaks of half an hour."""

_ABSENT = ("No OpKernel", "not implemented", "UnimplementedError", "not supported", "unsupported")
_FULL = ("out of memory", "OOM", "ResourceExhausted")
_MOST_TAKEN = 0.5
"""Share of a GPU's memory that a framework with memory growth may have taken after some small operations."""


def read_torch(machine: Machine) -> ComputeReading | None:
    """Computes with PyTorch; `None` where it gives no GPU."""
    return _read(machine, TORCH, machine.torch, "cuda")


def read_tensorflow(machine: Machine) -> ComputeReading | None:
    """Computes with TensorFlow; `None` where it gives no GPU."""
    return _read(machine, TENSORFLOW, machine.tensorflow, "GPU")


def evaluate(reading: ComputeReading) -> Iterator[Finding]:
    """D501 a wrong answer, D502 an operation fails, D503 it crashes or hangs, D504 it ran elsewhere, D505 memory growth,
    D509 the GPU's memory is full."""
    if reading.problem is not None:
        yield broke_off(reading)
    for work in reading.works:
        if (finding := _judge(work, reading)) is not None:
            yield finding
    if reading.growth is not None:
        yield from _growth(reading)


def summarize(reading: ComputeReading) -> str | None:
    """`PyTorch 2.11.0: matmul and convolution right in float32, float16 and bfloat16 on 1 GPU`."""
    right = [work for work in reading.works if work.right]
    if not right:
        return None
    names, types, gpus = (
        list(dict.fromkeys(getattr(work, field) for work in right)) for field in ("name", "dtype", "gpu")
    )
    return f"{reading.by}: {join_words(names)} right in {join_words(types)} on {pluralize(len(gpus), 'GPU')}"


def broke_off(reading: ComputeReading) -> Finding:
    """D503: the process died or never ended."""
    at = f" at {reading.step}" if reading.step else ""
    what = "hangs" if reading.hung else "breaks off"
    return Finding(
        "D503",
        Severity.ERROR,
        f"{reading.by} {what}{at}: {reading.problem}.",
        tuple(line for line in reading.error.strip().splitlines()[-6:] if line.strip()),
        "Look into `sudo dmesg | grep -iE 'nvrm|xid'`: an Xid there means the GPU, none means the software.",
    )


def _read(machine: Machine, name: str, said: FrameworkReading | None, device: str) -> ComputeReading | None:
    if said is None or not said.devices:
        return None
    seconds = PTX_SECONDS if _compiles_first(machine, name) else SECONDS
    answer = machine.run_probe(f"compute_{name}", json.dumps({"device": device}), seconds=seconds)
    return understand(f"{NAMES[name]} {said.version}", answer, tuple(one.name for one in said.devices))


def _compiles_first(machine: Machine, name: str) -> bool:
    stack = read_stack(machine)
    if stack is None:
        return False
    builds = [build for build in stack.builds if build.framework == name]
    return any(fit_of(build, device, stack).kind == "ptx" for build in builds for device in stack.devices)


def _judge(work: Work, reading: ComputeReading) -> Finding | None:
    what = f"{work.name} in {work.dtype}"
    place = gpu_location(work.gpu, reading.name_of(work.gpu))
    if work.error is not None:
        return _failed(work, what, reading)
    if work.device is not None and not _on_gpu(work):
        return Finding(
            "D504",
            Severity.ERROR,
            f"{reading.by} was told to compute {what} on GPU {work.gpu}, and did it on {work.device}.",
            (f"device of the result: {work.device}",),
            "Such a job trains elsewhere than it says; report it to the framework with this output.",
            place,
        )
    if work.right:
        return None
    return Finding(
        "D501",
        Severity.ERROR,
        f"{reading.by} computes {what} wrongly on this GPU: it deviates by {work.deviation:.1e} from the CPU's answer.",
        (f"largest deviation {work.deviation:.3g}, allowed {work.tolerance:g} of the largest number",),
        "Do not trust this GPU: run `gpuproof doctor --full` again; if it stays, stop and start the instance, which moves "
        "it to other hardware.",
        place,
    )


def _failed(work: Work, what: str, reading: ComputeReading) -> Finding | None:
    error = work.error or ""
    if any(word in error for word in _ABSENT):
        return None  # the framework does not offer it, which is no fault of this machine's
    place = gpu_location(work.gpu, reading.name_of(work.gpu))
    first = error.strip().splitlines()[0]
    if any(word in error for word in _FULL):
        return Finding(
            "D509",
            Severity.WARNING,
            f"{reading.by} could not compute {what}: the GPU's memory is full.",
            (first,),
            "`nvidia-smi` shows who holds it; end what you do not need, or wait.",
            place,
        )
    return Finding(
        "D502",
        Severity.ERROR,
        f"{reading.by} fails to compute {what} on this GPU: {first}",
        _lines(error),
        "`gpuproof explain` knows many such texts: paste it there with `gpuproof explain -`.",
        place,
    )


def _growth(reading: ComputeReading) -> Iterator[Finding]:
    growth = reading.growth or {}
    taken, total, error = growth.get("taken"), growth.get("total"), growth.get("error")
    if error is not None:
        why = str(error)
    elif taken and total and taken > _MOST_TAKEN * total:
        why = f"some small operations took {format_bytes(taken)} of {format_bytes(total)}"
    else:
        return
    yield Finding(
        "D505",
        Severity.WARNING,
        f"Memory growth does not work with {reading.by}: {why}.",
        (why,),
        "Look for TF_FORCE_GPU_ALLOW_GROWTH and TF_GPU_ALLOCATOR in the environment.",
        gpu_location(0, reading.name_of(0)),
    )


def _on_gpu(work: Work) -> bool:
    device = (work.device or "").lower()
    return device == f"cuda:{work.gpu}" or device.endswith(f"device:gpu:{work.gpu}")


def _lines(text: str) -> tuple[str, ...]:
    return tuple(line.strip() for line in text.strip().splitlines()[:6] if line.strip())


TORCH_CHECK = Check("PyTorch computes", Layer.COMPUTE, read_torch, evaluate, quick=False, summarize=summarize)
TENSORFLOW_CHECK = Check(
    "TensorFlow computes", Layer.COMPUTE, read_tensorflow, evaluate, quick=False, summarize=summarize
)
