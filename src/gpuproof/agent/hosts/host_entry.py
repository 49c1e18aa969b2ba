"""Moves a process to one host of a network: its network, its name, and its `/etc/hosts`."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict, dataclass

from gpuproof.agent.isolation.hosts_file import cover_hosts_file
from gpuproof.util.sandbox import (
    CLONE_NEWNET,
    CLONE_NEWUSER,
    CLONE_NEWUTS,
    join,
    own_mounts,
)


@dataclass(frozen=True)
class HostEntry:
    """Where a process enters a host; valid as long as the network exists. It can be passed on as JSON.

    Args:
        holder: process that keeps the namespaces.
        network: its descriptor of the host's network namespace.
        hostname: its descriptor of the namespace with the host's name; None if it has none.
        user: its descriptor of the user namespace to which they belong; None if that is the machine's.
        hosts_file: the content of `/etc/hosts`.
    """

    holder: int
    network: int
    hostname: int | None
    user: int | None
    hosts_file: str

    def to_json(self) -> str:
        """The entry as text, for `from_json`."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> HostEntry:
        """Read what `to_json` wrote."""
        return cls(**json.loads(text))


def enter_host(entry: HostEntry) -> None:
    """Move this process, which must have one thread, to a host. It keeps its user, files and working directory.

    Programs that it executes may create user and mount namespaces of their own, as the agent does for `/opt/ml`.

    Raises:
        OSError: it is refused, or the network no longer exists. The process must end then.
    """
    steps = ((CLONE_NEWUSER, entry.user), (CLONE_NEWNET, entry.network), (CLONE_NEWUTS, entry.hostname))
    # All are opened first: in another user namespace, the holder's files are out of reach.
    opened = [
        (flag, os.open(f"/proc/{entry.holder}/fd/{number}", os.O_RDONLY | os.O_CLOEXEC))
        for flag, number in steps
        if number is not None
    ]
    try:
        for flag, descriptor in opened:
            join(descriptor, flag)
    finally:
        for _, descriptor in opened:
            os.close(descriptor)
    own_mounts()
    cover_hosts_file(entry.hosts_file)


def run_on_host(entry: str, command: list[str]) -> int:
    """Replace this process by a command that runs on a host: `gpuproof-agent --in-host ENTRY COMMAND …`.

    Args:
        entry: a `HostEntry` in JSON.
        command: program and arguments.

    Returns:
        127 if that fails; a line on standard error has the reason.
    """
    try:
        enter_host(HostEntry.from_json(entry))
        os.execvp(command[0], command)  # noqa: S606 - no shell is wanted
    except OSError as error:
        print(f"gpuproof-agent: {command[0]} cannot run on its host: {error}", file=sys.stderr)
        return 127
