"""Advice about the host: memory, files and the version of Python."""

from __future__ import annotations

from collections.abc import Mapping

from gpuproof.explain.context import Context
from gpuproof.explain.explanation import Advice, AdviceFunction
from gpuproof.explain.patterns import data_table
from gpuproof.util.humanize import format_bytes


def host_memory(_: Mapping[str, str], context: Context) -> Advice | None:
    """Total host memory."""
    return (
        Advice(f"Host memory of {context.machine}: {format_bytes(context.host_memory)}.")
        if context.host_memory
        else None
    )


def address_space(_: Mapping[str, str], context: Context) -> Advice | None:
    """Limit of the address space: a `MemoryError` below the host's memory comes from it."""
    limit = context.address_space
    if limit is None or (context.host_memory and limit >= context.host_memory):
        return None
    return Advice(
        f"Processes on {context.machine} are limited to {format_bytes(limit)} of address space (ulimit -v, RLIMIT_AS): that "
        "limit was reached, not the host's memory.",
        "ulimit -v unlimited before the start. CUDA alone reserves tens of gigabytes of address space.",
        instead=True,
    )


def shared_memory(groups: Mapping[str, str], context: Context) -> Advice | None:
    """Size of `/dev/shm`."""
    if context.shared_memory is None:
        return None
    wanted = int(groups["wanted"]) if groups.get("wanted", "").isdigit() else None
    requested = f"; {format_bytes(wanted)} were requested" if wanted else ""
    return Advice(f"Size of /dev/shm on {context.machine}: {format_bytes(context.shared_memory)}{requested}.")


def open_files(_: Mapping[str, str], context: Context) -> Advice | None:
    """Limit of open files per process."""
    return (
        Advice(f"Limit of open files per process on {context.machine}: {context.open_files}.")
        if context.open_files
        else None
    )


def disk(groups: Mapping[str, str], _: Context) -> Advice | None:
    """Advice for the folder that was full."""
    path = groups.get("path", "")
    row = next(
        (row for row in data_table("paths", "prefix").values() if path.startswith(row["prefix"])), None
    )
    return Advice(row["what"], row["remedy"]) if row else None


def python_version(_: Mapping[str, str], context: Context) -> Advice | None:
    """Python version of the log."""
    return Advice(f"Python version in the log: {context.python}.") if context.python else None


ADVICE: dict[str, AdviceFunction] = {
    "host_memory": host_memory,
    "address_space": address_space,
    "shared_memory": shared_memory,
    "open_files": open_files,
    "disk": disk,
    "python_version": python_version,
}
