"""Mounts a private `/opt/ml` for one process and its children in a Linux mount namespace, without Docker or root.

Source: mount_namespaces(7), user_namespaces(7), mount(2).
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Sequence
from pathlib import Path

from gpuproof.agent.job import Mount
from gpuproof.agent.paths import CONTRACT_ROOT

_CLONE_NEWNS = 0x00020000
_CLONE_NEWUSER = 0x10000000
_MS_RDONLY = 0x1
_MS_REMOUNT = 0x20
_MS_BIND = 0x1000
_MS_MOVE = 0x2000
_MS_REC = 0x4000
_MS_PRIVATE = 0x40000
# Flags that a user namespace may not drop when it makes a mount read-only: statvfs(3) flag, mount(2) flag.
_LOCKED_FLAGS = ((0x2, 0x2), (0x4, 0x4), (0x8, 0x8), (0x400, 0x400), (0x800, 0x800), (0x1000, 0x200000))


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
    libc = ctypes.CDLL(None, use_errno=True)
    _unshare(libc)
    _mount(libc, None, "/", None, _MS_REC | _MS_PRIVATE, "make mounts private")
    for mount in mounts:
        bind(libc, mount, ml)
    _cover_contract_root(libc, ml)


def prepare_mount_point(mount: Mount, ml: Path) -> Path:
    """Create the mount point of a mount below `ml`, and return it."""
    target = ml / mount.target
    if os.path.isdir(mount.source):  # noqa: PTH112 - the source may hold undecodable bytes
        target.mkdir(parents=True, exist_ok=True)
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    target.touch()
    return target


def bind(libc: ctypes.CDLL, mount: Mount, ml: Path) -> None:
    """Show one file or folder of the host below `ml`."""
    target = str(prepare_mount_point(mount, ml))
    _mount(libc, mount.source, target, None, _MS_BIND | _MS_REC, f"mount {mount.source}")
    if not mount.read_only:
        return
    # Mounts below the source were bound too, and each mount has its own flag.
    for place in [target, *_mounted_below(target)]:
        kept = os.statvfs(place).f_flag
        flags = sum(flag for seen, flag in _LOCKED_FLAGS if kept & seen)
        _mount(
            libc, None, place, None, _MS_REMOUNT | _MS_BIND | _MS_RDONLY | flags, f"make {place} read-only"
        )


def _mounted_below(folder: str) -> list[str]:
    """Mount points below a folder: proc_pid_mountinfo(5)."""
    found: list[str] = []
    for line in Path("/proc/self/mountinfo").read_bytes().splitlines():
        # Spaces and backslashes are octal escapes.
        place = re.sub(rb"\\([0-7]{3})", lambda match: bytes([int(match[1], 8)]), line.split()[4])
        if place.startswith(os.fsencode(folder) + b"/"):
            found.append(os.fsdecode(place))
    return found


def _cover_contract_root(libc: ctypes.CDLL, ml: Path) -> None:
    root = Path(CONTRACT_ROOT)
    if not root.is_dir() or _is_empty(root):
        _rebuild_parent(libc, root, ml)
    _mount(libc, str(ml), str(root), None, _MS_BIND | _MS_REC, f"mount {root}")


def _is_empty(folder: Path) -> bool:
    """Removing an empty mount point removes the mounts of other processes on it; proot does so with its own at its end."""
    try:
        return not any(folder.iterdir())
    except OSError:
        return False


def _rebuild_parent(libc: ctypes.CDLL, root: Path, ml: Path) -> None:
    """Cover `/opt` with a memory file system that contains the host's entries and an empty `ml`.

    Nothing is created on the host itself, where permission may be missing and where it would remain.
    """
    parent = root.parent
    if not parent.is_dir():
        raise NamespaceUnavailable(f"{parent} does not exist")
    stage = ml.with_name(".opt")
    stage.mkdir(exist_ok=True)
    _mount(libc, "tmpfs", str(stage), "tmpfs", 0, "mount a memory file system", b"mode=755,size=1m")
    for entry in os.scandir(parent):
        if entry.name == root.name:
            # A file or a dead link of that name is replaced.
            continue
        copy = stage / entry.name
        if entry.is_symlink():
            copy.symlink_to(Path(entry.path).readlink())
        elif entry.is_dir():
            copy.mkdir()
            _mount(libc, entry.path, str(copy), None, _MS_BIND | _MS_REC, f"keep {entry.path}")
        else:
            copy.touch()
            _mount(libc, entry.path, str(copy), None, _MS_BIND, f"keep {entry.path}")
    (stage / root.name).mkdir()
    _mount(libc, str(stage), str(parent), None, _MS_MOVE, f"cover {parent}")


def _unshare(libc: ctypes.CDLL) -> None:
    if os.geteuid() == 0 and libc.unshare(_CLONE_NEWNS) == 0:
        return
    uid, gid = os.geteuid(), os.getegid()
    if libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNS) != 0:
        raise NamespaceUnavailable(f"unshare: {os.strerror(ctypes.get_errno())}")
    try:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
        Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
    except OSError as error:
        raise NamespaceUnavailable(f"map the user into a namespace: {error.strerror}") from error


def _mount(
    libc: ctypes.CDLL,
    source: str | None,
    target: str,
    kind: str | None,
    flags: int,
    what: str,
    data: bytes | None = None,
) -> None:
    result = libc.mount(
        None if source is None else os.fsencode(source),
        os.fsencode(target),
        None if kind is None else kind.encode(),
        ctypes.c_ulong(flags),
        data,
    )
    if result != 0:
        raise NamespaceUnavailable(f"{what}: {os.strerror(ctypes.get_errno())}")
