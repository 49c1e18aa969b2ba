"""Mounts a private `/opt/ml` for one process and its children in a Linux mount namespace, without Docker or root.

Source: mount_namespaces(7), user_namespaces(7), mount(2).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from gpuproof.agent.job import Mount
from gpuproof.agent.paths import CONTRACT_ROOT
from gpuproof.util.sandbox import bind, make_mount_point, mount_memory, move_mount, own_mounts


class NamespaceUnavailable(Exception):
    """This host does not allow a private `/opt/ml`; the message names the step that was refused."""


def enter_private_contract(ml: Path, mounts: Sequence[Mount]) -> None:
    """Give this process a mount namespace of its own in which the run's `ml` folder is `/opt/ml`.

    Call it in a process with one thread. The host's mounts stay as they are.

    Args:
        ml: the run's folder that becomes `/opt/ml`.
        mounts: files and folders to show below it; mount points are created in `ml`.

    Raises:
        NamespaceUnavailable: a step was refused. The process must end then.
    """
    root = Path(CONTRACT_ROOT)
    try:
        own_mounts()
        for mount in mounts:
            target = ml / mount.target
            make_mount_point(mount.source, target)
            bind(mount.source, target, read_only=mount.read_only)
        if not root.is_dir() or _is_empty(root):
            _rebuild_parent(root, ml)
        bind(ml, root)
    except OSError as error:
        raise NamespaceUnavailable(f"{error.filename}: {error.strerror}") from error


def _is_empty(folder: Path) -> bool:
    """Removing an empty mount point removes the mounts of other processes on it; proot does so with its own at its end."""
    try:
        return not any(folder.iterdir())
    except OSError:
        return False


def _rebuild_parent(root: Path, ml: Path) -> None:
    """Cover `/opt` with a memory file system that contains the host's entries and an empty `ml`.

    Nothing is created on the host itself, where permission may be missing and where it would remain.
    """
    parent = root.parent
    if not parent.is_dir():
        raise NamespaceUnavailable(f"{parent} does not exist")
    stage = ml.with_name(".opt")
    stage.mkdir(exist_ok=True)
    mount_memory(stage, "mode=755,size=1m")
    for entry in os.scandir(parent):
        if entry.name == root.name:
            # A file or a dead link of that name is replaced.
            continue
        copy = stage / entry.name
        if entry.is_symlink():
            copy.symlink_to(Path(entry.path).readlink())
        else:
            make_mount_point(entry.path, copy)
            bind(entry.path, copy)
    (stage / root.name).mkdir()
    move_mount(stage, parent)
