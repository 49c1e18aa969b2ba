"""`CUDA_VISIBLE_DEVICES`: which GPUs a program gets, by CUDA's own rules.

CUDA reads the list from its start and stops at the first entry that names no GPU; an entry that comes twice leaves
nothing. Source: CUDA C++ Programming Guide, CUDA environment variables.
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
    """The variable and the GPUs that it chooses from.

    Args:
        value: as it is set.
        uuids: of each GPU in NVML's order; `None` where NVML does not say.
        order: `CUDA_DEVICE_ORDER`, if set.
        alike: whether all GPUs are of one model.
    """

    value: str
    uuids: tuple[str | None, ...]
    order: str | None = None
    alike: bool = True


@dataclass(frozen=True)
class Choice:
    """What CUDA makes of the variable.

    Args:
        chosen: indexes in the order in which the program sees them; -1 for a MIG instance.
        stopped_at: the entry that names no GPU; those after it are not looked at.
        twice: the entry that came twice, which leaves no GPU at all.
    """

    chosen: tuple[int, ...] = ()
    stopped_at: str | None = None
    twice: str | None = None


def read(machine: Machine) -> Reading | None:
    """The variable; `None` where it is not set or there is no GPU to choose."""
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


def choose(value: str, uuids: Sequence[str | None]) -> Choice:
    """Reads the variable as CUDA does."""
    chosen: list[int] = []
    seen: set[int | str] = set()
    for entry in map(str.strip, value.split(",")):
        index = _index(entry, uuids)
        if index is None:
            return Choice(tuple(chosen), stopped_at=entry)
        identity = entry if index < 0 else index
        if identity in seen:
            return Choice((), twice=entry)
        seen.add(identity)
        chosen.append(index)
    return Choice(tuple(chosen))


def evaluate(reading: Reading) -> Iterator[Finding]:
    """D640 no GPU is left, D641 some are hidden, D642 the list is not what it seems."""
    choice = choose(reading.value, reading.uuids)
    count = len(reading.uuids)
    evidence = (f"{_NAME}={reading.value}", f"GPUs here: {count}")
    if not choice.chosen:
        yield Finding(
            "D640",
            Severity.ERROR,
            f"{_NAME} hides {_all(count)} from every program: {_why_none(reading.value, choice)}.",
            evidence,
            f"unset {_NAME}",
        )
        return
    if choice.stopped_at is not None:
        yield Finding(
            "D642",
            Severity.ERROR,
            f"CUDA reads {_NAME} only up to `{choice.stopped_at}`, which names no GPU here: programs get "
            f"{len(choice.chosen)} of {count}.",
            evidence,
            f"Use the numbers 0 to {count - 1}, or UUIDs as `nvidia-smi -L` prints them.",
        )
        return
    if len(choice.chosen) < count and -1 not in choice.chosen:
        named = ", ".join(map(str, choice.chosen))
        order = (
            " CUDA numbers the fastest first here, NVML by bus: set CUDA_DEVICE_ORDER=PCI_BUS_ID to have one numbering."
            if not reading.alike and reading.order != "PCI_BUS_ID"
            else ""
        )
        yield Finding(
            "D641",
            Severity.NOTE,
            f"{_NAME} shows programs {len(choice.chosen)} of the {count} GPUs here: {named}.{order}",
            evidence,
            f"unset {_NAME}, if they are all meant to work.",
        )


def _index(entry: str, uuids: Sequence[str | None]) -> int | None:
    if _INDEX.fullmatch(entry):
        return int(entry) if 0 <= int(entry) < len(uuids) else None
    if entry.startswith("MIG-"):
        return -1
    if not entry.startswith("GPU-"):
        return None
    # A UUID may be cut short as long as it means one GPU.
    matching = [
        number for number, uuid in enumerate(uuids) if uuid and uuid.lower().startswith(entry.lower())
    ]
    return matching[0] if len(matching) == 1 else None


def _why_none(value: str, choice: Choice) -> str:
    if choice.twice is not None:
        return f"`{choice.twice}` comes twice, and CUDA then takes none"
    if not value.strip():
        return "it is set and empty"
    if choice.stopped_at == "-1":
        return "-1 means none"
    return f"`{choice.stopped_at}` names no GPU here, and what follows it is not read"


def _all(count: int) -> str:
    return "the GPU" if count == 1 else f"all {count} GPUs"


CHECK = Check("CUDA_VISIBLE_DEVICES", Layer.ENVIRONMENT, read, evaluate)
