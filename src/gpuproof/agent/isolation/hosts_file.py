"""A private `/etc/hosts`, in which the names of the job's hosts resolve.

Source: hosts(5).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from gpuproof.util.sandbox import bind, mount_memory, unmount

HOSTS_FILE = "/etc/hosts"
# Covered, in this mount namespace only, for the moment in which the file is made.
_STAGE = "/etc"


def hosts_file(addresses: Mapping[str, str], machine: str) -> str:
    """The content of a host's `/etc/hosts`."""
    lines = [f"{address}\t{name}" for name, address in addresses.items()]
    kept: list[str] = []
    for line in machine.splitlines():
        words = line.partition("#")[0].split()
        names = [name for name in words[1:] if name not in addresses]
        if names:
            kept.append(f"{words[0]}\t{' '.join(names)}")
    if not any(line.split()[0] == "127.0.0.1" and "localhost" in line.split() for line in kept):
        kept.insert(0, "127.0.0.1\tlocalhost")
    return "\n".join([*kept, *lines]) + "\n"


def write_hosts_file(file: Path, addresses: Mapping[str, str]) -> None:
    """Write a host's `/etc/hosts` to a file; arguments as of `hosts_file`."""
    content = hosts_file(addresses, read_hosts_file())
    file.write_text(content, encoding="utf-8", errors="surrogateescape")


def bind_hosts_file(file: Path) -> None:
    """Show a file as `/etc/hosts` in this process's mount namespace, which must be its own.

    Raises:
        OSError: the mount is refused, or the machine has no `/etc/hosts`.
    """
    bind(file, HOSTS_FILE, with_mounts=False)


def read_hosts_file() -> str:
    """The content of the `/etc/hosts` that this process sees; empty if there is none."""
    try:
        return Path(HOSTS_FILE).read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""


def cover_hosts_file(content: str) -> None:
    """Show a file with that content as `/etc/hosts` in this process's mount namespace, which must be its own.

    The file is in memory, so nothing remains on the machine. On a busy machine, the kernel may take 10 ms for it, unlike for
    `bind_hosts_file`. The process must have one thread.

    Raises:
        OSError: a mount is refused, or the machine has no `/etc/hosts`.
    """
    target = os.open(HOSTS_FILE, os.O_RDONLY | os.O_CLOEXEC)
    try:
        mount_memory(_STAGE, "mode=755,size=1m")
        try:
            staged = Path(_STAGE, "hosts")
            staged.write_text(content, encoding="utf-8", errors="surrogateescape")
            staged.chmod(0o644)
            # Through the descriptor: the path leads to the staged file itself now.
            bind(staged, f"/proc/self/fd/{target}", with_mounts=False)
        finally:
            unmount(_STAGE)
    finally:
        os.close(target)
