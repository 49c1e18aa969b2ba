"""Advice about the host: memory, files, Python and the contract's folders."""

from __future__ import annotations

from collections.abc import Mapping

from gpuproof.explain.advice.form import Advice, Advise, gib
from gpuproof.explain.context import Context
from gpuproof.explain.patterns import table


def host_memory(_: Mapping[str, str], context: Context) -> Advice | None:
    """How much memory the host has."""
    return (
        Advice(f"Memory of the host, {context.there}: {gib(context.host_memory)}.")
        if context.host_memory
        else None
    )


def shared_memory(groups: Mapping[str, str], context: Context) -> Advice | None:
    """How big `/dev/shm` is."""
    if context.shared_memory is None:
        return None
    wanted = int(groups["wanted"]) if groups.get("wanted", "").isdigit() else None
    asked = f"; {gib(wanted)} were wanted" if wanted else ""
    return Advice(f"The /dev/shm of {context.there} holds {gib(context.shared_memory)}{asked}.")


def open_files(_: Mapping[str, str], context: Context) -> Advice | None:
    """How many files a process may have open."""
    return (
        Advice(f"A process may have {context.open_files} open on {context.there}.")
        if context.open_files
        else None
    )


def disk(groups: Mapping[str, str], _: Context) -> Advice | None:
    """What the path that was being written to says."""
    path = groups.get("path", "")
    row = next((row for row in table("paths", "prefix").values() if path.startswith(row["prefix"])), None)
    return Advice(row["what"], row["remedy"]) if row else None


def python_version(_: Mapping[str, str], context: Context) -> Advice | None:
    """Which Python it was."""
    return Advice(f"The log's Python is {context.python}.") if context.python else None


def module(groups: Mapping[str, str], _: Context) -> Advice | None:
    """What brings the module: a package of another name, an extra, or nobody: then it is a file of the user's."""
    name = groups.get("module", "")
    top = name.partition(".")[0]
    row = table("modules", "module").get(name) or table("modules", "module").get(top)
    if row is None:
        return Advice(
            f"No package is known here by the name {top}; where {top}.py (or a folder of that name) is yours, it did not travel.",
            f"A file of yours: let source_dir name the folder that holds both the script and {top}; a script alone travels alone.\nA package: echo {top} >> requirements.txt, beside the script.",
            instead=True,
        )
    remedy = row["remedy"] or f"echo {row['package']} >> requirements.txt"
    return Advice(
        f"The package that brings {top} is {row['package']}." if row["package"] != top else "",
        remedy,
        instead=True,
    )


def channel(groups: Mapping[str, str], _: Context) -> Advice | None:
    """Which channel the script reads."""
    variable = groups.get("variable", "")
    name = groups.get("channel") or groups.get("channel2") or ""
    if variable.startswith("SM_CHANNEL_"):
        name = variable.removeprefix("SM_CHANNEL_").lower()
    if not name:
        return None
    return Advice(
        f"The script wants the channel '{name}'.",
        f"gpuproof run train.py --input {name}=DATA, or inputs: {{{name}: DATA}} in gpuproof.yaml.",
    )


ADVICE: dict[str, Advise] = {
    "host_memory": host_memory,
    "shared_memory": shared_memory,
    "open_files": open_files,
    "disk": disk,
    "python_version": python_version,
    "module": module,
    "channel": channel,
}
