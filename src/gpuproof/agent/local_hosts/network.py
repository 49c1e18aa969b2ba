"""The network of the hosts on this machine: one for each of them or, where that is not allowed, the machine's own."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gpuproof.agent.hosts import Egress, HostNetwork, NetworkUnavailable

_LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class LocalNetwork:
    """The network of several hosts.

    Args:
        environment: variables for the programs on all hosts, such as the proxy that leads out of their networks.
        note: a remark for the user, or nothing.
        own: the hosts' own networks; `None` if all hosts are in the machine's.
        cluster_port: a port of the first host for the hosts' agents; `None` is the usual one.
    """

    addresses: Mapping[str, str]
    environment: Mapping[str, str] = field(default_factory=dict)
    note: str = ""
    own: HostNetwork | None = None
    cluster_port: int | None = None

    @property
    def shared(self) -> bool:
        """Whether all hosts have one network, so that each needs its own ports."""
        return self.own is None

    def join(self, host: str) -> None:
        """Move this process, a forked child with one thread, into a host's network.

        Raises:
            OSError: it is refused.
        """
        if self.own is not None:
            self.own.join(host)

    def close(self) -> None:
        """Remove the network."""
        if self.own is not None:
            self.own.close()


def create_network(
    hosts: Sequence[str], environment: Mapping[str, str], *, namespaces: bool = True
) -> LocalNetwork:
    """Create a network for each host, or return the machine's own if that is not allowed.

    Args:
        namespaces: whether to try it; the user may have chosen to do without namespaces.
        environment: of the hosts' programs. They reach what it names: proxies, and servers on this machine such as the
            emulator.
    """
    if not namespaces:
        return _shared_network(hosts, "--isolation rules them out")
    try:
        own = HostNetwork.create(hosts, Egress.from_environment(environment, metadata=True))
    except NetworkUnavailable as error:
        return _shared_network(hosts, str(error))
    return LocalNetwork(own.addresses, own.environment, own=own)


def _shared_network(hosts: Sequence[str], why: str) -> LocalNetwork:
    note = (
        f"the hosts share this machine's network ({why}): launchers connect them at {_LOOPBACK}, and two hosts cannot listen "
        "on the same port of all addresses"
    )
    return LocalNetwork(dict.fromkeys(hosts, _LOOPBACK), note=note, cluster_port=_free_port())


def _free_port() -> int:
    """A port that no other run on this machine uses at the moment."""
    with socket.create_server((_LOOPBACK, 0)) as server:
        return int(server.getsockname()[1])
