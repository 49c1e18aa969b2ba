"""Advice about the host: memory, files, Python modules and input channels."""

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


def module(groups: Mapping[str, str], _: Context) -> Advice | None:
    """The package that provides the module; an unknown module is most likely a file of the user."""
    name = groups.get("module", "")
    top = name.partition(".")[0]
    row = data_table("modules", "module").get(name) or data_table("modules", "module").get(top)
    if row is None:
        return Advice(
            f"{top} is not a package that GPUproof knows. If {top}.py (or a folder {top}) is yours, it was not sent with the job.",
            f"If it is your file: set source_dir to the folder that contains both the script and {top}; without source_dir only the script is sent.\nIf it is a package: echo {top} >> requirements.txt, next to the script.",
            instead=True,
        )
    remedy = row["remedy"] or f"echo {row['package']} >> requirements.txt"
    return Advice(
        f"{top} is part of the package {row['package']}." if row["package"] != top else "",
        remedy,
        instead=True,
    )


def channel(groups: Mapping[str, str], _: Context) -> Advice | None:
    """The input channel that the script reads."""
    variable = groups.get("variable", "")
    name = groups.get("channel") or groups.get("channel2") or ""
    if variable.startswith("SM_CHANNEL_"):
        name = variable.removeprefix("SM_CHANNEL_").lower()
    if not name:
        return None
    return Advice(
        f"The script reads the channel '{name}'.",
        f"gpuproof run train.py --input {name}=DATA, or inputs: {{{name}: DATA}} in gpuproof.yaml",
    )


ADVICE: dict[str, AdviceFunction] = {
    "host_memory": host_memory,
    "address_space": address_space,
    "shared_memory": shared_memory,
    "open_files": open_files,
    "disk": disk,
    "python_version": python_version,
    "module": module,
    "channel": channel,
}
