"""Network isolation of a job: a network namespace with nothing but a loopback device, shared by the job's containers.

`python -m gpuproof.emulator.execution.network` creates the namespace and keeps it until its standard input ends; containers
join it. Source: network_namespaces(7), user_namespaces(7), netdevice(7).
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
import subprocess
import sys
from pathlib import Path

_CLONE_NEWUSER = 0x10000000
_CLONE_NEWNET = 0x40000000
_SIOCSIFFLAGS = 0x8914
_IFF_UP = 0x1
_READY = "ready"


class NetworkUnavailable(Exception):
    """This machine does not allow network isolation; the message is the reason."""


class IsolatedNetwork:
    """An isolated network. Close it when the containers have ended.

    Raises:
        NetworkUnavailable: this machine does not allow it.
    """

    def __init__(self) -> None:
        self._holder = subprocess.Popen(
            [sys.executable, "-m", "gpuproof.emulator.execution.network"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self._holder.stdout is not None
        said = self._holder.stdout.readline().strip()
        if said != _READY:
            self.close()
            raise NetworkUnavailable(said or "its process was killed")

    @property
    def pid(self) -> int:
        """Process in the network, for `join_network`."""
        return self._holder.pid

    def close(self) -> None:
        """End the process that keeps the network."""
        self._holder.communicate()


def join_network(pid: int) -> None:
    """Move this process, which must have one thread, into the network of another.

    Raises:
        OSError: it is refused.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    for kind, flag in (("user", _CLONE_NEWUSER), ("net", _CLONE_NEWNET)):
        path = f"/proc/{pid}/ns/{kind}"
        if Path(path).stat().st_ino == Path(f"/proc/self/ns/{kind}").stat().st_ino:
            continue
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            _check(libc.setns(descriptor, flag))
        finally:
            os.close(descriptor)


def main() -> int:
    """Create the namespace and keep it."""
    try:
        _create()
    except OSError as error:
        print(error.strerror or error, flush=True)
        return 1
    print(_READY, flush=True)
    sys.stdin.read()
    return 0


def _create() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    uid, gid = os.geteuid(), os.getegid()
    if uid != 0 or libc.unshare(_CLONE_NEWNET) != 0:
        _check(libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET))
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
        Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as device:
        fcntl.ioctl(device, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", _IFF_UP))


def _check(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


if __name__ == "__main__":
    sys.exit(main())
