"""Environment variables left over from debugging or copied from elsewhere that slow jobs down or hide errors.

The table is `data/environment/variables.csv`. Its column `applies` limits a row to GPUs with TF32 (`tf32`), several GPUs
(`gpus`) or more than two CPUs (`cores`); `always` does not limit it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from gpuproof.doctor.check import Check, Layer
from gpuproof.doctor.machine import Machine
from gpuproof.doctor.readings.gpus import read_gpus
from gpuproof.doctor.readings.host import host_cpus
from gpuproof.doctor.tables import table
from gpuproof.findings import Finding, Severity

_FIRST_WITH_TF32 = (8, 0)


@dataclass(frozen=True)
class Reading:
    """The variables of the table that are set, and the hardware.

    Args:
        gpus: number of GPUs.
        tf32: whether any GPU supports TF32.
        cpus: number of CPUs.
    """

    values: tuple[tuple[str, str], ...]
    gpus: int = 0
    tf32: bool = False
    cpus: int | None = None


def read(machine: Machine) -> Reading | None:
    """Read the variables; `None` if none is set."""
    names = {row["name"] for row in table("environment/variables")}
    values = tuple((name, value) for name, value in sorted(machine.environment.items()) if name in names)
    if not values:
        return None
    gpus = read_gpus(machine)
    states = gpus.states if gpus else ()
    return Reading(
        values,
        len(states),
        any((gpu.info.compute_capability or (0, 0)) >= _FIRST_WITH_TF32 for gpu in states),
        host_cpus(machine),
    )


def evaluate(reading: Reading) -> Iterator[Finding]:
    """D645 to D656, one code per variable."""
    values = dict(reading.values)
    for row in table("environment/variables"):
        value = values.get(row["name"])
        if (
            value is None
            or not re.fullmatch(row["pattern"], value.strip())
            or not _applies(row["applies"], reading)
        ):
            continue
        yield Finding(
            row["code"],
            Severity(row["severity"]),
            row["message"].format(value=value, cpus=reading.cpus),
            (f"{row['name']}={value}",),
            row["remedy"],
        )


def _applies(where: str, reading: Reading) -> bool:
    holds = {
        "always": True,
        "tf32": reading.tf32,
        "gpus": reading.gpus > 1,
        "cores": (reading.cpus or 0) > 2,
    }
    return holds[where]


CHECK = Check("environment variables", Layer.ENVIRONMENT, read, evaluate)
