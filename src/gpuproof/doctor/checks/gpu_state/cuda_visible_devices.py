"""`CUDA_VISIBLE_DEVICES`: which GPUs a program sees, by CUDA's rules.

CUDA reads the list up to the first entry that matches no GPU; a duplicate entry hides all GPUs. Source: CUDA C++ Programming Guide, CUDA environment variables.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpuproof.doctor.check import Check, Layer
from gpuproof.doctor.machine import Machine
from gpuproof.doctor.readings.gpus import read_gpus
from gpuproof.findings import Finding, Severity

_NAME = "CUDA_VISIBLE_DEVICES"
_INDEX = re.compile(r"[+-]?\d+")


@dataclass(frozen=True)
class Reading:
    """The variable and the GPUs of the machine.

    Args:
        uuids: of each GPU in NVML's order; `None` if unknown.
        order: `CUDA_DEVICE_ORDER`, if set.
        same_model: whether all GPUs are of the same model.
    """

    value: str
    uuids: tuple[str | None, ...]
    order: str | None = None
    same_model: bool = True


@dataclass(frozen=True)
class VisibleDevices:
    """The GPUs that CUDA shows a program.

    Args:
        indexes: NVML indexes in the order in which the program sees them; -1 for a MIG instance.
        stopped_at: the entry that matches no GPU; later entries are ignored.
        duplicate: the entry that came twice, which leaves no GPU at all.
    """

    indexes: tuple[int, ...] = ()
    stopped_at: str | None = None
    duplicate: str | None = None


def read(machine: Machine) -> Reading | None:
    """Read the variable; `None` if it is not set or there is no GPU."""
    value = machine.environment.get(_NAME)
    gpus = read_gpus(machine)
    if value is None or gpus is None:
        return None
    return Reading(
        value,
        tuple(gpu.info.uuid for gpu in gpus.states),
        machine.environment.get("CUDA_DEVICE_ORDER"),
        len({gpu.info.name for gpu in gpus.states}) == 1,
    )


def parse_visible_devices(value: str, uuids: Sequence[str | None]) -> VisibleDevices:
    """Parse the variable as CUDA does."""
    chosen: list[int] = []
    seen: set[int | str] = set()
    for entry in map(str.strip, value.split(",")):
        index = _index(entry, uuids)
        if index is None:
            return VisibleDevices(tuple(chosen), stopped_at=entry)
        identity = entry if index < 0 else index
        if identity in seen:
            return VisibleDevices((), duplicate=entry)
        seen.add(identity)
        chosen.append(index)
    return VisibleDevices(tuple(chosen))


def evaluate(reading: Reading) -> Iterator[Finding]:
    """D640 all GPUs are hidden, D641 some are hidden, D642 the list has an entry that matches no GPU."""
    visible = parse_visible_devices(reading.value, reading.uuids)
    count = len(reading.uuids)
    evidence = (f"{_NAME}={reading.value}", f"GPUs of this machine: {count}")
    if not visible.indexes:
        yield Finding(
            "D640",
            Severity.ERROR,
            f"{_NAME} hides {_all(count)} from every program: {_hidden_reason(reading.value, visible)}.",
            evidence,
            f"unset {_NAME}",
        )
        return
    if visible.stopped_at is not None:
        yield Finding(
            "D642",
            Severity.ERROR,
            f"CUDA reads {_NAME} only up to `{visible.stopped_at}`, which matches no GPU: programs see "
            f"{len(visible.indexes)} of {count}.",
            evidence,
            f"Use the numbers 0 to {count - 1}, or UUIDs as `nvidia-smi -L` prints them.",
        )
        return
    if len(visible.indexes) < count and -1 not in visible.indexes:
        shown = ", ".join(map(str, visible.indexes))
        order = (
            " CUDA numbers the fastest GPU first, NVML by PCI bus: set CUDA_DEVICE_ORDER=PCI_BUS_ID for the same order."
            if not reading.same_model and reading.order != "PCI_BUS_ID"
            else ""
        )
        yield Finding(
            "D641",
            Severity.NOTE,
            f"{_NAME} limits programs to {len(visible.indexes)} of {count} GPUs: {shown}.{order}",
            evidence,
            f"unset {_NAME} to use all of them.",
        )


def _index(entry: str, uuids: Sequence[str | None]) -> int | None:
    if _INDEX.fullmatch(entry):
        return int(entry) if 0 <= int(entry) < len(uuids) else None
    if entry.startswith("MIG-"):
        return -1
    if not entry.startswith("GPU-"):
        return None
    # A UUID may be shortened as long as it is unique.
    matching = [
        number for number, uuid in enumerate(uuids) if uuid and uuid.lower().startswith(entry.lower())
    ]
    return matching[0] if len(matching) == 1 else None


def _hidden_reason(value: str, visible: VisibleDevices) -> str:
    if visible.duplicate is not None:
        return f"`{visible.duplicate}` is listed twice, and CUDA then uses no GPU"
    if not value.strip():
        return "it is set and empty"
    if visible.stopped_at == "-1":
        return "-1 means no GPU"
    return f"`{visible.stopped_at}` matches no GPU, and later entries are ignored"


def _all(count: int) -> str:
    return "the only GPU" if count == 1 else f"all {count} GPUs"


CHECK = Check("CUDA_VISIBLE_DEVICES", Layer.ENVIRONMENT, read, evaluate)
