"""The specification of the instance type against the GPUs of the machine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpuproof.catalogue.model import Instance
from gpuproof.doctor.check import Check, Layer
from gpuproof.doctor.machine import Machine
from gpuproof.doctor.readings.host import inside_container
from gpuproof.doctor.readings.instance_identity import InstanceIdentity, read_instance_identity
from gpuproof.findings import Finding, Severity
from gpuproof.gpu.checks import gpu_memory
from gpuproof.gpu.checks.remedies import MOVE_TO_OTHER_HARDWARE
from gpuproof.util.humanize import join_words, pluralize


@dataclass(frozen=True)
class SeenGpu:
    """One GPU as NVML reports it.

    Args:
        model: its name in the catalogue; `None` if the NVML name matches none or several.
        memory: in bytes.
    """

    name: str | None
    model: str | None = None
    memory: int | None = None


@dataclass(frozen=True)
class Reading:
    """The specification and the GPUs found.

    Args:
        spec: of the instance type; `None` if the catalogue does not have it.
        seen: GPUs that NVML lists; `None` if NVML cannot be used.
        on_bus: NVIDIA GPUs on the PCI bus; `None` if the bus cannot be read.
        container: whether this is a container.
        alternatives: instance types to use instead, each with the reason.
    """

    identity: InstanceIdentity
    spec: Instance | None
    vendor: str = "NVIDIA"
    seen: tuple[SeenGpu, ...] | None = None
    on_bus: int | None = None
    container: bool = False
    alternatives: tuple[tuple[str, str], ...] = ()


def read(machine: Machine) -> Reading | None:
    """Read specification and GPUs; `None` if the instance type is unknown."""
    identity = read_instance_identity(machine)
    if identity.instance_type is None:
        return None
    catalogue = machine.catalogue
    spec = catalogue.instance(identity.instance_type)
    gpu = catalogue.gpu(spec.gpu_model) if spec and spec.gpu_model else None
    nvml = machine.nvml
    pci = machine.files.pci
    seen = (
        None if nvml.problem else tuple(_seen_gpu(machine, gpu.name, gpu.memory_total) for gpu in nvml.gpus)
    )
    usable = spec is not None and spec.gpu_count and spec.status != "retired" and gpu
    alternatives = (
        () if usable and gpu and gpu.vendor == "NVIDIA" else catalogue.replacements(identity.instance_type)
    )
    return Reading(
        identity,
        spec,
        gpu.vendor if gpu else "NVIDIA",
        seen,
        None if pci is None else len(pci),
        inside_container(machine),
        tuple((alternative.instance.name, alternative.reason) for alternative in alternatives),
    )


def evaluate(reading: Reading) -> Iterator[Finding]:
    """D701 fewer GPUs, D702 another model, D703 less memory, D704 no GPU in the type, D705 retired, D706 legacy,
    D707 no CUDA, D708 unknown type, D709 another type was given than detected."""
    yield from _type_mismatch(reading.identity)
    spec = reading.spec
    if spec is None:
        yield Finding(
            "D708",
            Severity.NOTE,
            f"{reading.identity.instance_type} is not in the catalogue: its specification was not checked.",
            remedy="gpuproof catalogue refresh",
        )
        return
    yield from _availability(reading, spec)
    if not spec.gpu_count:
        yield _no_gpu_in_type(reading, spec)
    elif reading.vendor != "NVIDIA":
        yield Finding(
            "D707",
            Severity.ERROR,
            f"{spec.name} has {reading.vendor} GPUs ({spec.gpu_model}) without CUDA: TensorFlow and PyTorch "
            "from PyPI cannot use them.",
            remedy=_alternatives_text(reading),
        )
    else:
        yield from _compare_gpus(reading, spec)


def _type_mismatch(identity: InstanceIdentity) -> Iterator[Finding]:
    if identity.detected_type is not None:
        yield Finding(
            "D709",
            Severity.WARNING,
            f"--instance-type is {identity.instance_type}, but this machine is {identity.detected_type}.",
            (f"--instance-type: {identity.instance_type}", f"detected: {identity.detected_type}"),
            "Omit --instance-type to check the machine against its own type.",
        )


def _availability(reading: Reading, spec: Instance) -> Iterator[Finding]:
    if spec.status == "retired":
        since = f" (gone since {spec.gone_by} or earlier)" if spec.gone_by else ""
        yield Finding(
            "D705",
            Severity.ERROR if reading.identity.user_given else Severity.WARNING,
            f"AWS no longer offers {spec.ec2_type}{since}: starting it fails.",
            (f"catalogue, as of {spec.as_of}: retired",),
            _alternatives_text(reading),
        )
    elif spec.retires_on:
        yield Finding(
            "D706",
            Severity.WARNING,
            f"AWS retires {spec.ec2_type} on {spec.retires_on}.",
            (f"catalogue, as of {spec.as_of}: retires on {spec.retires_on}",),
            _alternatives_text(reading),
        )


def _no_gpu_in_type(reading: Reading, spec: Instance) -> Finding:
    other = "" if spec.accelerator in ("none", "gpu") else f", only {spec.accelerator}"
    return Finding(
        "D704",
        Severity.ERROR,
        f"{spec.name} has no GPU{other}: TensorFlow and PyTorch run on the CPU.",
        (f"instance type according to {reading.identity.source}: {spec.name}",),
        _alternatives_text(reading),
    )


def _compare_gpus(reading: Reading, spec: Instance) -> Iterator[Finding]:
    yield from _compare_count(reading, spec)
    for index, gpu in enumerate(reading.seen or ()):
        if gpu.model is not None and gpu.model != spec.gpu_model:
            yield Finding(
                "D702",
                Severity.WARNING,
                f"{spec.name} should have {spec.gpu_model}, but GPU {index} is {gpu.name}.",
                (f"instance type according to {reading.identity.source}: {spec.name}", f"NVML: {gpu.name}"),
                "Check which instance type was started: it is not this one.",
            )
        elif small := gpu_memory.evaluate(index, gpu.name, gpu.memory, spec.gpu_memory, spec.name):
            yield small


def _compare_count(reading: Reading, spec: Instance) -> Iterator[Finding]:
    seen = None if reading.seen is None else len(reading.seen)
    found = seen if seen is not None else reading.on_bus
    if found is None or found == spec.gpu_count:
        return
    evidence = [f"{spec.name}: {spec.gpu_count} {spec.gpu_model}, according to {reading.identity.source}"]
    evidence += [f"NVML: {seen}"] if seen is not None else []
    evidence += [f"PCI bus: {reading.on_bus}"] if reading.on_bus is not None else []
    if found > spec.gpu_count:
        yield Finding(
            "D701",
            Severity.NOTE,
            f"{pluralize(found, 'GPU')} found, but {spec.name} has {spec.gpu_count}: this is another instance type.",
            tuple(evidence),
        )
        return
    why, remedy = _missing_gpus_reason(reading, spec, found)
    paid = ", and you pay for all" if reading.identity.on_aws else ""
    if spec.gpu_count == 1:
        message = f"The GPU of {spec.name} is missing: {why}."
    else:
        part = f"Only {found}" if found else "None"
        verb = "is" if found == 1 else "are"
        message = f"{part} of the {spec.gpu_count} GPUs of {spec.name} {verb} available{paid}: {why}."
    yield Finding("D701", Severity.ERROR, message, tuple(evidence), remedy)


def _missing_gpus_reason(reading: Reading, spec: Instance, found: int) -> tuple[str, str]:
    on_bus = reading.on_bus or 0
    if reading.container and on_bus >= spec.gpu_count:
        return "the container was started without some of them", "docker run --gpus all …"
    if on_bus > found:
        return (
            "the driver does not use all GPUs on the PCI bus",
            f"`sudo dmesg | grep -i nvrm` shows the reason. Reboot; if that does not help, {MOVE_TO_OTHER_HARDWARE}",
        )
    if not reading.identity.on_aws:
        return (
            "this machine does not look like an AWS instance",
            "Omit --instance-type, or run the doctor on the instance.",
        )
    return "the missing ones are not on the PCI bus", f"To get a complete machine, {MOVE_TO_OTHER_HARDWARE}"


def _alternatives_text(reading: Reading) -> str | None:
    if not reading.alternatives:
        return None
    return (
        "Use "
        + join_words([f"{name} ({reason.rstrip('.')})" for name, reason in reading.alternatives[:3]], "or")
        + "."
    )


def _seen_gpu(machine: Machine, name: str | None, memory: int | None) -> SeenGpu:
    model = machine.catalogue.gpu(name) if name else None
    return SeenGpu(name, model.name if model else None, memory)


def summarize(reading: Reading) -> str:
    """`g5.xlarge, according to the firmware (DMI)`."""
    return f"{reading.identity.instance_type}, according to {reading.identity.source}"


CHECK = Check("instance type", Layer.CLOUD, read, evaluate, summarize=summarize)
