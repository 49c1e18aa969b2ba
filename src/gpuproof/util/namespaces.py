"""Linux namespaces and mounts through the C library, so that no program and no package is needed.

Source: namespaces(7), user_namespaces(7), mount(2), setns(2).
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000
MS_BIND = 0x1000
MS_REC = 0x4000
MS_PRIVATE = 0x40000
MNT_DETACH = 2


def unshare(flags: int) -> None:
    """Move this process into new namespaces.

    Raises:
        OSError: it is refused.
    """
    _check(ctypes.CDLL(None, use_errno=True).unshare(flags), "unshare")


def unshare_as_user(flags: int) -> None:
    """Move this process, which must have one thread, into new namespaces, and where that takes privileges also into a new
    user namespace in which it keeps its user and group.

    Raises:
        OSError: it is refused.
    """
    if os.geteuid() == 0:
        try:
            unshare(flags)
        except OSError:
            pass  # root of a container
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
    _check(result, target)


def make_mounts_private() -> None:
    """Keep what is mounted from now on from other mount namespaces.

    Raises:
        OSError: it is refused.
    """
    mount(None, "/", None, MS_REC | MS_PRIVATE)


def unmount(target: str) -> None:
    """Take a mount out of this mount namespace; it ends when nothing uses it any more.

    Raises:
        OSError: it is refused.
    """
    _check(ctypes.CDLL(None, use_errno=True).umount2(os.fsencode(target), MNT_DETACH), target)


def _check(result: int, subject: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), subject)
