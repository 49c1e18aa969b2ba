"""What the instance type promises against the GPUs that are there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpuproof.catalogue.model import Instance
from gpuproof.doctor.check import Check, Layer
from gpuproof.doctor.machine import Machine
from gpuproof.doctor.readings.host import inside_container
from gpuproof.doctor.readings.instance_identity import Place, read_instance_identity
from gpuproof.doctor.remedies import MOVE_TO_OTHER_HARDWARE
from gpuproof.findings import Finding, Severity
from gpuproof.util.humanize import format_bytes, join_words, pluralize

_MEMORY_TOLERANCE = 0.9
"""NVML and EC2 differ by what the driver keeps; less than this share of the promise is another card, or a slice."""


@dataclass(frozen=True)
class Seen:
    """One GPU as NVML has it.

    Args:
        model: its key in the catalogue; `None` where the name means none, or several.
        memory: bytes.
    """

    name: str | None
    model: str | None = None
    memory: int | None = None


@dataclass(frozen=True)
class Reading:
    """The promise and what is there.

    Args:
        place: where this machine is.
        promise: what the type is; `None` for a type that the catalogue does not know.
        vendor: who makes its GPUs.
        seen: GPUs by NVML; `None` where NVML cannot be used.
        on_bus: NVIDIA GPUs on the PCI bus; `None` where the bus cannot be looked at.
        container: whether this is a container.
        instead: types to take instead, with what each brings.
    """

    place: Place
    promise: Instance | None
    vendor: str = "NVIDIA"
    seen: tuple[Seen, ...] | None = None
    on_bus: int | None = None
    container: bool = False
    instead: tuple[tuple[str, str], ...] = ()


def read(machine: Machine) -> Reading | None:
    """The promise; `None` where nobody says which type this is."""
    place = read_instance_identity(machine)
    if place.instance_type is None:
        return None
    catalogue = machine.catalogue
    promise = catalogue.instance(place.instance_type)
    gpu = catalogue.gpu(promise.gpu_model) if promise and promise.gpu_model else None
    nvml = machine.nvml
    pci = machine.files.pci
    seen = None if nvml.problem else tuple(_seen(machine, one.name, one.memory_total) for one in nvml.gpus)
    usable = promise is not None and promise.gpu_count and promise.status != "retired" and gpu
    instead = () if usable and gpu and gpu.vendor == "NVIDIA" else catalogue.replacements(place.instance_type)
    return Reading(
        place,
        promise,
        gpu.vendor if gpu else "NVIDIA",
        seen,
        None if pci is None else len(pci),
        inside_container(machine),
        tuple((one.instance.name, one.reason) for one in instead),
    )


def evaluate(reading: Reading) -> Iterator[Finding]:
    """D701 fewer GPUs, D702 another model, D703 less memory, D704 no GPU in the type, D705 retired, D706 legacy,
    D707 no CUDA, D708 unknown type, D709 the machine says another type."""
    yield from _another_type(reading.place)
    promise = reading.promise
    if promise is None:
        yield Finding(
            "D708",
            Severity.NOTE,
            f"The catalogue knows nothing about {reading.place.instance_type}: nothing of what it promises was checked.",
            remedy="gpuproof catalogue refresh",
        )
        return
    yield from _can_be_had(reading, promise)
    if not promise.gpu_count:
        yield _without_gpu(reading, promise)
    elif reading.vendor != "NVIDIA":
        yield Finding(
            "D707",
            Severity.ERROR,
            f"{promise.name} has {reading.vendor} GPUs ({promise.gpu_model}): no CUDA, and neither TensorFlow nor "
            "PyTorch as pip installs them can use them.",
            remedy=_instead(reading),
        )
    else:
        yield from _compare(reading, promise)


def _another_type(place: Place) -> Iterator[Finding]:
    if place.itself is not None:
        yield Finding(
            "D709",
            Severity.WARNING,
            f"You say {place.instance_type}, and this machine says that it is {place.itself}.",
            (f"--instance-type: {place.instance_type}", f"the machine: {place.itself}"),
            "Leave --instance-type out to check what this machine itself promises.",
        )


def _can_be_had(reading: Reading, promise: Instance) -> Iterator[Finding]:
    if promise.status == "retired":
        since = f" (gone by {promise.gone_by})" if promise.gone_by else ""
        yield Finding(
            "D705",
            Severity.ERROR if reading.place.asked else Severity.WARNING,
            f"AWS no longer offers {promise.ec2_type}{since}: new jobs and instances of it fail.",
            (f"catalogue, as of {promise.as_of}: retired",),
            _instead(reading),
        )
    elif promise.retires_on:
        yield Finding(
            "D706",
            Severity.WARNING,
            f"AWS has announced the end of {promise.ec2_type} for {promise.retires_on}.",
            (f"catalogue, as of {promise.as_of}: retires on {promise.retires_on}",),
            _instead(reading),
        )


def _without_gpu(reading: Reading, promise: Instance) -> Finding:
    other = "" if promise.accelerator in ("none", "gpu") else f", only {promise.accelerator}"
    return Finding(
        "D704",
        Severity.ERROR,
        f"{promise.name} has no GPU{other}: TensorFlow and PyTorch run on its CPU.",
        (f"instance type by {reading.place.told_by}: {promise.name}",),
        _instead(reading),
    )


def _compare(reading: Reading, promise: Instance) -> Iterator[Finding]:
    yield from _count(reading, promise)
    for index, gpu in enumerate(reading.seen or ()):
        if gpu.model is not None and gpu.model != promise.gpu_model:
            yield Finding(
                "D702",
                Severity.WARNING,
                f"{promise.name} promises {promise.gpu_model}, and GPU {index} is {gpu.name}.",
                (f"instance type by {reading.place.told_by}: {promise.name}", f"NVML: {gpu.name}"),
                "Check what was started: it is not this type.",
            )
        elif gpu.memory is not None and gpu.memory < _MEMORY_TOLERANCE * promise.gpu_memory:
            yield Finding(
                "D703",
                Severity.WARNING,
                f"GPU {index} has {format_bytes(gpu.memory)} where {promise.name} promises {format_bytes(promise.gpu_memory)}: it is "
                "cut up (MIG), shared, or another card.",
                (f"NVML: {gpu.name}, {format_bytes(gpu.memory)}",),
                "nvidia-smi -L shows whether it is cut into instances.",
            )


def _count(reading: Reading, promise: Instance) -> Iterator[Finding]:
    seen = None if reading.seen is None else len(reading.seen)
    found = seen if seen is not None else reading.on_bus
    if found is None or found == promise.gpu_count:
        return
    evidence = [f"{promise.name}: {promise.gpu_count} {promise.gpu_model}, by {reading.place.told_by}"]
    evidence += [f"NVML: {seen}"] if seen is not None else []
    evidence += [f"PCI bus: {reading.on_bus}"] if reading.on_bus is not None else []
    if found > promise.gpu_count:
        yield Finding(
            "D701",
            Severity.NOTE,
            f"{pluralize(found, 'GPU')} here, where {promise.name} has {promise.gpu_count}: this is another type.",
            tuple(evidence),
        )
        return
    why, remedy = _why_fewer(reading, promise, found)
    paid = ", and you pay for all" if reading.place.on_aws else ""
    if promise.gpu_count == 1:
        message = f"The GPU that {promise.name} promises is not here: {why}."
    else:
        part = f"Only {found}" if found else "None"
        message = (
            f"{part} of the {promise.gpu_count} GPUs that {promise.name} promises are here{paid}: {why}."
        )
    yield Finding("D701", Severity.ERROR, message, tuple(evidence), remedy)


def _why_fewer(reading: Reading, promise: Instance, found: int) -> tuple[str, str]:
    on_bus = reading.on_bus or 0
    if reading.container and on_bus >= promise.gpu_count:
        return "the container was not given all of them", "docker run --gpus all …"
    if on_bus > found:
        return (
            "the driver does not have all that are on the PCI bus",
            f"sudo dmesg | grep -i nvrm says why. Reboot; if it stays, {MOVE_TO_OTHER_HARDWARE}",
        )
    if not reading.place.on_aws:
        return (
            "this machine bears no mark of AWS",
            "Leave --instance-type out, or run the doctor on the instance.",
        )
    return "what is missing is not even on the PCI bus", f"To get a whole machine, {MOVE_TO_OTHER_HARDWARE}"


def _instead(reading: Reading) -> str | None:
    if not reading.instead:
        return None
    return (
        "Take "
        + join_words([f"{name} ({reason.rstrip('.')})" for name, reason in reading.instead[:3]], "or")
        + "."
    )


def _seen(machine: Machine, name: str | None, memory: int | None) -> Seen:
    model = machine.catalogue.gpu(name) if name else None
    return Seen(name, model.name if model else None, memory)


def summarize(reading: Reading) -> str:
    """`g5.xlarge, by the firmware (DMI)`."""
    return f"{reading.place.instance_type}, by {reading.place.told_by}"


CHECK = Check("instance type", Layer.CLOUD, read, evaluate, summarize=summarize)
