"""The network of one job's hosts: their names resolve, and hosts of a job with several have a network of their own."""

from __future__ import annotations

import functools
import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from gpuproof.agent.hosts import Egress, HostNetwork, NetworkUnavailable
from gpuproof.agent.hosts.holder import INTERFACE

_LOOPBACK = "lo"
_SHARED = (
    "gpuproof: this machine allows no network for each host of a job ({reason}): the hosts share one network. Their names "
    "resolve to 127.0.0.1, 127.0.0.2 and so on, and two hosts cannot listen at the same port of all addresses."
)


@dataclass(frozen=True)
class Placement:
    """Where a container runs.

    Args:
        entry: a `HostEntry` in JSON; None for the machine's own network.
        addresses: names to add to `/etc/hosts`, if it runs in the machine's network.
    """

    entry: str | None = None
    addresses: Mapping[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The placement for a container's process."""
        return {"entry": self.entry, "addresses": dict(self.addresses)}


class JobNetwork:
    """The network of one job's hosts. Close it when the containers have ended.

    Args:
        names: the hosts' names.
        isolated: whether they reach nothing but each other.
    """

    def __init__(self, names: Sequence[str], *, isolated: bool) -> None:
        self._names = names
        self._isolated = isolated
        self._separate = isolated or (len(names) > 1 and _shared_because() is None)
        self._network: HostNetwork | None = None

    @property
    def separate(self) -> bool:
        """Whether each host has a network of its own."""
        return self._separate

    @property
    def interface(self) -> str:
        """The network interface with which the hosts reach each other."""
        devices = [name for _, name in socket.if_nameindex()]
        return INTERFACE if self._separate or (INTERFACE in devices and len(self._names) == 1) else _LOOPBACK

    def create(self, url: str, environment: Mapping[str, str]) -> dict[str, str]:
        """Create the network, and return the variables with which programs on the hosts find the way out of it.

        Args:
            url: where the emulator listens.
            environment: the containers' variables, which may name proxies.

        Raises:
            NetworkUnavailable: this machine does not allow it.
        """
        if not self._separate:
            return {}
        port = urlsplit(url).port
        egress = Egress.from_environment(environment, [] if port is None else [port])
        self._network = HostNetwork.create(self._names, None if self._isolated else egress)
        return dict(self._network.environment)

    def placement(self, name: str) -> Placement:
        """Where the container of one host runs; after `create`."""
        if self._network is not None:
            return Placement(self._network.entry(name).to_json())
        return Placement(addresses={host: f"127.0.0.{number}" for number, host in enumerate(self._names, 1)})

    def close(self) -> None:
        """End the network."""
        if self._network is not None:
            self._network.close()


@functools.lru_cache(maxsize=1)
def _shared_because() -> str | None:
    """Why hosts of one job have to share the machine's network; None if they do not. Reported once."""
    try:
        HostNetwork.create(["algo-1"]).close()
    except NetworkUnavailable as error:
        print(_SHARED.format(reason=error), file=sys.stderr, flush=True)
        return str(error)
    return None
