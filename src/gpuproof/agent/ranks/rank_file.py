"""Writes the file of a rank's report, with as few imports as possible: each one delays the start of every rank."""

from __future__ import annotations

import os
from collections.abc import Mapping

FOLDER_VARIABLE = "GPUPROOF_RANK_REPORTS"
"""Names the folder of the reports; without it, no report is written."""
HOST_VARIABLE = "GPUPROOF_HOST"
"""Names the host where `SM_CURRENT_HOST` does not: under SageMaker's MPI it is `algo-1` on every host."""

_RANK_VARIABLES = ("RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK")
_LOCAL_RANK_VARIABLES = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID")


def describe_rank(
    now: float, environment: Mapping[str, str] = os.environ
) -> dict[str, str | int | float | None]:
    """Describe the rank that this process is, according to its launcher's variables; the fields are `RankReport`'s.

    Args:
        now: when the process started, in Unix time.
    """
    return {
        "host": environment.get(HOST_VARIABLE) or environment.get("SM_CURRENT_HOST", ""),
        "rank": _number(environment, _RANK_VARIABLES),
        "local_rank": _number(environment, _LOCAL_RANK_VARIABLES),
        "pid": os.getpid(),
        "attempt": _number(environment, ("TORCHELASTIC_RESTART_COUNT",)),
        "started": now,
    }


def write_rank_file(folder: object, values: Mapping[str, str | int | float | None]) -> None:
    """Write a rank's file, replacing the previous one in one step.

    Args:
        folder: its path as a text or `Path`; created if missing.
        values: the fields of `RankReport`.

    Raises:
        OSError: the folder or the file cannot be written.
    """
    os.makedirs(str(folder), exist_ok=True)  # noqa: PTH103
    partial = f"{folder}/.rank-{values['rank']}-{os.getpid()}"
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        text = ", ".join(f'"{name}": {_as_json(value)}' for name, value in values.items())
        os.write(descriptor, f"{{{text}}}".encode("utf-8", "backslashreplace"))
    finally:
        os.close(descriptor)
    os.replace(partial, f"{folder}/rank-{values['rank']}.json")  # noqa: PTH105


def _number(environment: Mapping[str, str], names: tuple[str, ...]) -> int:
    found = (environment[name] for name in names if environment.get(name, "").isdigit())
    return int(next(found, "0"))


def _as_json(value: str | float | None) -> str:
    if value is None:
        return "null"
    if not isinstance(value, str):
        return repr(value)
    escaped = "".join(
        character if character >= " " and character not in '"\\' else f"\\u{ord(character):04x}"
        for character in value
    )
    return f'"{escaped}"'
