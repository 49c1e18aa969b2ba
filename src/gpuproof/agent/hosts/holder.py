"""The process that keeps a network of hosts; `network.py` starts it.

Its child creates the network namespaces and passes them on: a plain user's process cannot return from them, and this one
must stay in the machine's network to forward connections. The namespaces exist until this process has ended, which
ends with its standard input, and with it everything on the hosts.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gpuproof.agent.hosts.rtnetlink import RtNetlink
from gpuproof.agent.isolation.hosts_file import cover_hosts_file
from gpuproof.util.sandbox import (
    CLONE_NEWNET,
    CLONE_NEWUTS,
    own_mounts,
    set_hostname,
    unshare,
    unshare_as_user,
)

INTERFACE = "eth0"
"""The hosts' network interface, as on SageMaker."""

# Of the network namespace of the process that writes it: ip-sysctl.rst of the kernel.
_UNPRIVILEGED_PORTS = Path("/proc/sys/net/ipv4/ip_unprivileged_port_start")
_PREFIX = 24
_BACKLOG = 128
# The kernel passes at most 253 descriptors at once: SCM_MAX_FD.
_BATCH = 128


@dataclass(frozen=True)
class NetworkSpec:
    """The network to create.

    Args:
        hosts: name and address of each host.
        listen: addresses and ports at which each host's loopback device listens.
        targets: for each of them, name or address to which connections are forwarded; empty for the HTTP proxy.
    """

    hosts: Sequence[tuple[str, str]]
    listen: Sequence[tuple[str, int]]
    targets: Sequence[str]


@dataclass(frozen=True)
class _Namespaces:
    """Descriptors of what was created: `user` and `hostnames` are empty where there are none."""

    user: Sequence[int]
    bridge: int
    networks: Sequence[int]
    hostnames: Sequence[int]
    listeners: Sequence[int]


def main(argument: str) -> int:
    """Create the network, write a line of JSON about it, and keep it until standard input ends.

    Args:
        argument: a `NetworkSpec` in JSON.
    """
    spec = NetworkSpec(**json.loads(argument))
    _raise_limit()
    try:
        found = _create(spec)
    except OSError as error:
        reason = f"{error.filename or 'network devices'}: {error.strerror or error}"
        print(json.dumps({"unavailable": reason}), flush=True)
        return 1
    answer = {"user": found.user, "networks": found.networks, "hostnames": found.hostnames}
    print(json.dumps(answer), flush=True)
    if found.listeners:
        # Imported now that the hosts can start: their connections wait meanwhile.
        from gpuproof.agent.hosts.forwarder import forward

        forward([socket.socket(fileno=number) for number in found.listeners], spec.targets)
    else:
        sys.stdin.read()
    return 0


def _raise_limit() -> None:
    """Allow for three descriptors a host and two a forwarded connection."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _create(spec: NetworkSpec) -> _Namespaces:
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        try:
            ours.close()
            _send(theirs, _create_here(spec))
        except OSError as error:
            theirs.sendall(json.dumps([error.errno, error.strerror, error.filename]).encode())
        finally:
            os._exit(0)
    theirs.close()
    try:
        return _receive(ours)
    finally:
        ours.close()
        os.waitpid(pid, 0)


def _create_here(spec: NetworkSpec) -> _Namespaces:
    """Create the namespaces with their devices, in the process that stays in the last of them."""
    before = Path("/proc/self/ns/user").stat().st_ino
    unshare_as_user(CLONE_NEWNET)
    changed = Path("/proc/self/ns/user").stat().st_ino != before
    user = [_namespace("user")] if changed else []
    bridge = _namespace("net")
    networks: list[int] = []
    hostnames: list[int] = []
    listeners: list[int] = []
    with RtNetlink() as outer:
        index = outer.add_bridge("hosts")
        for name, address in spec.hosts:
            unshare(CLONE_NEWNET)
            networks.append(_namespace("net"))
            outer.add_cable(f"host-{len(networks)}", index, INTERFACE, networks[-1])
            with RtNetlink() as inner:
                inner.set_up("lo")
                inner.set_up(INTERFACE)
                inner.add_address(INTERFACE, address, _PREFIX)
                for extra in {extra for extra, _ in spec.listen if not extra.startswith("127.")}:
                    inner.add_address("lo", extra, 32)
            listeners += [_listen(*where) for where in spec.listen]
            with contextlib.suppress(OSError):  # /proc/sys may be read-only
                # In a container, programs may listen at all ports; here, a plain user's may.
                _UNPRIVILEGED_PORTS.write_text("0")
            with contextlib.suppress(OSError):  # the host then has the machine's name
                unshare(CLONE_NEWUTS)
                set_hostname(name)
                hostnames.append(_namespace("uts"))
    # What `enter_host` does, too: better refused here than by every host.
    own_mounts()
    cover_hosts_file("")
    return _Namespaces(user, bridge, networks, hostnames, listeners)


def _namespace(kind: str) -> int:
    return os.open(f"/proc/self/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC)


def _listen(address: str, port: int) -> int:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((address, port))
    listener.listen(_BACKLOG)
    listener.setblocking(False)
    return listener.detach()


def _send(channel: socket.socket, found: _Namespaces) -> None:
    counts = [len(found.user), 1, len(found.networks), len(found.hostnames), len(found.listeners)]
    channel.sendall(json.dumps(counts).encode() + b"\n")
    every = [*found.user, found.bridge, *found.networks, *found.hostnames, *found.listeners]
    for start in range(0, len(every), _BATCH):
        socket.send_fds(channel, [b"x"], every[start : start + _BATCH])


def _receive(channel: socket.socket) -> _Namespaces:
    header = b""
    while not header.endswith(b"\n") and (part := channel.recv(1)):
        header += part
    counts = json.loads(header or b"[5, null, null]")
    if len(counts) == 3:
        raise OSError(*counts)
    every: list[int] = []
    while len(every) < sum(counts):
        data, descriptors, _, _ = socket.recv_fds(channel, 1, _BATCH)
        if not data:
            raise OSError("the process that creates the network was killed")
        every += descriptors
    parts: list[list[int]] = []
    for count in counts:
        parts.append(every[:count])
        every = every[count:]
    user, bridge, networks, hostnames, listeners = parts
    return _Namespaces(user, bridge[0], networks, hostnames, listeners)
