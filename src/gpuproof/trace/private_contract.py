"""SageMaker's folders for a traced script: a private `/opt/ml`, as a run has it, where the machine allows that."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from gpuproof.agent.isolation.opt_ml_mounts import NamespaceUnavailable, enter_private_contract
from gpuproof.agent.job import Mount

OWN_FOLDERS = tuple(f"/opt/ml/{name}/" for name in ("model", "output", "checkpoints"))
"""Folders of SageMaker's contract that a script writes to; a private `/opt/ml` is removed with the trace."""


def enter_contract(ml: Path, mounts: Sequence[str]) -> str | None:
    """Give this process a private `/opt/ml`; returns why that is not allowed, if so."""
    pairs = [mount.rpartition(":") for mount in mounts]
    # In a process of its own first: one that was refused half way has other mounts than this machine.
    for enter in (_try_in_child, enter_private_contract):
        try:
            enter(ml, [Mount(source, target) for source, _, target in pairs])
        except NamespaceUnavailable as error:
            return str(error)
    return None


def _try_in_child(ml: Path, mounts: Sequence[Mount]) -> None:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            enter_private_contract(ml, mounts)
        except NamespaceUnavailable as error:
            os.write(writer, str(error).encode() or b"refused")
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        refused = stream.read()
    os.waitpid(child, 0)
    if refused:
        raise NamespaceUnavailable(refused.decode(errors="replace"))


def names_contract(script: Path) -> bool:
    """Whether a script has a path in `/opt/ml`."""
    try:
        return b"/opt/ml" in script.read_bytes()
    except OSError:
        return False
