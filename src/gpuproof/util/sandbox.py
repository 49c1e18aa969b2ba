"""A process with a view of the machine of its own: Linux namespaces and mounts, without a program, a package or root.

The private `/opt/ml` of jobs, hosts on one machine, and the emulator's containers and instances are made of these. They go through the
C library, and raise OSError, which names the step that was refused.

Source: namespaces(7), user_namespaces(7), mount(2), setns(2).
"""

from __future__ import annotations

import ctypes
import os
import re
from pathlib import Path

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000
CLONE_NEWPID = 0x20000000
_MS_RDONLY = 0x1
_MS_REMOUNT = 0x20
_MS_BIND = 0x1000
_MS_MOVE = 0x2000
_MS_REC = 0x4000
_MS_PRIVATE = 0x40000
_MNT_DETACH = 2
# Flags that a user namespace may not drop when it makes a mount read-only: statvfs(3) flag, mount(2) flag.
_LOCKED_FLAGS = ((0x2, 0x2), (0x4, 0x4), (0x8, 0x8), (0x400, 0x400), (0x800, 0x800), (0x1000, 0x200000))


def unshare(flags: int) -> None:
    """Move this process into new namespaces.

    Raises:
        OSError: it is refused.
    """
    _check(ctypes.CDLL(None, use_errno=True).unshare(flags), "unshare")


def unshare_as_user(flags: int) -> None:
    """Move this process, which must have one thread, into new namespaces, and where that takes privileges that it lacks also into
    a new user namespace in which it keeps its user and group.

    Raises:
        OSError: it is refused.
    """
    try:
        unshare(flags)
    except OSError:
        pass  # a plain user, or root of a container
    else:
        return
    uid, gid = os.geteuid(), os.getegid()
    unshare(CLONE_NEWUSER | flags)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
    Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")


def join(descriptor: int, flag: int) -> None:
    """Move this process into the namespace of an open descriptor.

    Raises:
        OSError: it is refused.
    """
    _check(ctypes.CDLL(None, use_errno=True).setns(descriptor, flag), "setns")


def set_hostname(name: str) -> None:
    """Set the host name of this process's UTS namespace.

    Raises:
        OSError: it is refused.
    """
    packed = os.fsencode(name)
    _check(ctypes.CDLL(None, use_errno=True).sethostname(packed, len(packed)), "sethostname")


def own_mounts(hostname: str = "") -> None:
    """Keep what this process, which must have one thread, and its children mount from now on from all others.

    Args:
        hostname: the host name that they see; that of the machine if empty.

    Raises:
        OSError: it is refused.
    """
    unshare_as_user(CLONE_NEWNS | (CLONE_NEWUTS if hostname else 0))
    make_mounts_private()
    if hostname:
        set_hostname(hostname)


def make_mounts_private() -> None:
    """Keep what is mounted from now on from other mount namespaces.

    Raises:
        OSError: it is refused.
    """
    mount(None, "/", None, _MS_REC | _MS_PRIVATE)


def bind(
    source: str | Path, target: str | Path, *, read_only: bool = False, with_mounts: bool = True
) -> None:
    """Show a file or folder at a path that exists.

    Args:
        with_mounts: whether what is mounted below a folder is shown, too.

    Raises:
        OSError: it is refused.
    """
    mount(str(source), str(target), None, _MS_BIND | (_MS_REC if with_mounts else 0))
    if not read_only:
        return
    # Mounts below the source were bound too, and each mount has its own flag.
    for path in [str(target), *mount_points(str(target))]:
        kept = os.statvfs(path).f_flag
        flags = sum(flag for seen, flag in _LOCKED_FLAGS if kept & seen)
        mount(None, path, None, _MS_REMOUNT | _MS_BIND | _MS_RDONLY | flags)


def make_mount_point(source: str | Path, target: Path) -> None:
    """Create an empty folder or file at which a folder or file can be shown."""
    if os.path.isdir(source):  # noqa: PTH112 - the source may hold undecodable bytes
        target.mkdir(parents=True, exist_ok=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()


def mount_memory(target: str | Path, options: str = "") -> None:
    """Mount an empty file system in memory.

    Args:
        options: such as `mode=755,size=1m`.

    Raises:
        OSError: it is refused.
    """
    mount("tmpfs", str(target), "tmpfs", 0, options.encode() or None)


def move_mount(source: str | Path, target: str | Path) -> None:
    """Show what is mounted at one path at another instead.

    Raises:
        OSError: it is refused.
    """
    mount(str(source), str(target), None, _MS_MOVE)


def mount_points(below: str = "") -> list[str]:
    """Mount points that this process sees: proc_pid_mountinfo(5).

    Args:
        below: only those inside of this folder.
    """
    found: list[str] = []
    for line in Path("/proc/self/mountinfo").read_bytes().splitlines():
        # Spaces and backslashes are octal escapes.
        path = re.sub(rb"\\([0-7]{3})", lambda match: bytes([int(match[1], 8)]), line.split()[4])
        if path.startswith(os.fsencode(below) + b"/"):
            found.append(os.fsdecode(path))
    return found


def enter_root(root: str | Path) -> None:
    """Make a folder this process's `/`, and its working directory.

    Raises:
        OSError: it is refused.
    """
    os.chroot(root)
    os.chdir("/")


def mount(source: str | None, target: str, kind: str | None, flags: int, data: bytes | None = None) -> None:
    """Mount, as mount(2).

    Raises:
        OSError: it is refused.
    """
    result = ctypes.CDLL(None, use_errno=True).mount(
        None if source is None else os.fsencode(source),
        os.fsencode(target),
        None if kind is None else kind.encode(),
        ctypes.c_ulong(flags),
        data,
    )
    _check(result, f"change the mount {target}" if source is None else f"mount {source} at {target}")


def unmount(target: str) -> None:
    """Take a mount out of this mount namespace; it ends when nothing uses it any more.

    Raises:
        OSError: it is refused.
    """
    _check(ctypes.CDLL(None, use_errno=True).umount2(os.fsencode(target), _MNT_DETACH), target)


def _check(result: int, subject: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), subject)
