"""What the job's hosts reach outside of their network: forwarded addresses, an HTTP proxy, and the variables that name it."""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

LOOPBACK = "127.0.0.1"

_PROXY_PORT = 17788
_SCHEMES = ("http_proxy", "https_proxy")
_WITH_PROXIES = (*_SCHEMES, "all_proxy", "ftp_proxy", "grpc_proxy")
_DEFAULT_PORTS = {"http": 80, "https": 443, "socks4": 1080, "socks5": 1080, "socks5h": 1080}
_METADATA = ("169.254.169.254", "169.254.170.2")
# Proxies reach none of them.
_DIRECT = ("localhost", LOOPBACK, "::1", *_METADATA)
_LOCAL_URL = re.compile(r"//(?:127\.0\.0\.1|localhost):(\d{1,5})\b")


@dataclass(frozen=True)
class Forward:
    """An address of every host behind which there is another one, as this machine sees it.

    Args:
        address: of each host's loopback device, which gets it if it does not begin with 127.
        port: the same on both sides.
        target: name or address on this machine's network.
    """

    address: str
    port: int
    target: str


@dataclass(frozen=True)
class Egress:
    """What the hosts reach outside of their network.

    Args:
        forwards: addresses on their loopback devices.
        names: names that resolve to addresses of `forwards`.
        variables: proxy variables of the user, which remain valid on the hosts.
    """

    forwards: Sequence[Forward] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def proxy_port(self) -> int:
        """Port of the HTTP proxy on every host's loopback device."""
        taken = {forward.port for forward in self.forwards}
        return next(port for port in range(_PROXY_PORT, 1 << 16) if port not in taken)

    @classmethod
    def from_environment(
        cls, environment: Mapping[str, str], ports: Sequence[int] = (), *, metadata: bool = False
    ) -> Egress:
        """Everything that this machine reaches by HTTP: through its own proxies if variables name some, or else directly.

        Args:
            environment: of the programs on the hosts. They reach what it names: the user's proxies, and servers on this
                machine's loopback device, such as the emulator.
            ports: further ports of the loopback device that the hosts reach at the same address and port.
            metadata: whether they reach AWS's metadata services, if this machine does, for its role's credentials.
        """
        every = [*ports, *_local_ports(environment)]
        forwards = {(LOOPBACK, port): Forward(LOOPBACK, port, LOOPBACK) for port in every}
        if metadata:
            forwards.update({(address, 80): Forward(address, 80, address) for address in _METADATA})
        names: dict[str, str] = {}
        variables: dict[str, str] = {}
        for name, value in environment.items():
            if name.lower() == "no_proxy":
                variables[name] = value
            if name.lower() not in _WITH_PROXIES or not (server := _server(value)):
                continue
            host, port = server
            if host == "localhost":
                address = LOOPBACK
            elif _is_address(host):
                address = host
            else:
                # The variable stays as it is: on the hosts, the proxy's name resolves to a loopback address.
                address = names.setdefault(host, f"127.1.0.{len(names) + 1}")
            forwards.setdefault((address, port), Forward(address, port, host))
            variables[name] = value
        return cls(tuple(forwards.values()), names, variables)


def proxy_variables(egress: Egress, addresses: Mapping[str, str]) -> dict[str, str]:
    """The variables with which programs on the hosts find the proxy, and reach each other without it.

    Args:
        egress: what the hosts reach.
        addresses: the hosts' addresses by name.
    """
    own = {name.lower(): value for name, value in egress.variables.items()}
    found = dict(egress.variables)
    for name in _SCHEMES:
        if name not in own and "all_proxy" not in own:
            url = f"http://{LOOPBACK}:{egress.proxy_port}"
            found.update({name: url, name.upper(): url})
    direct = [part.strip() for part in own.get("no_proxy", "").split(",") if part.strip()]
    direct += [name for name in (*_DIRECT, *addresses, *addresses.values()) if name not in direct]
    listed = ",".join(direct)
    return {**found, "no_proxy": listed, "NO_PROXY": listed, "no_grpc_proxy": listed}


def _local_ports(environment: Mapping[str, str]) -> list[int]:
    """Ports of this machine's loopback device that URLs in variables name, such as `AWS_ENDPOINT_URL`."""
    found = {int(port) for value in environment.values() for port in _LOCAL_URL.findall(value)}
    return sorted(port for port in found if 0 < port < 1 << 16)


def _is_address(host: str) -> bool:
    try:
        socket.inet_aton(host)
    except OSError:
        return False
    return True


def _server(url: str) -> tuple[str, int] | None:
    """Name and port of the proxy in a variable."""
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        if parts.hostname and ":" not in parts.hostname:
            return parts.hostname, parts.port or _DEFAULT_PORTS.get(parts.scheme, 80)
    except ValueError:
        pass  # no valid port: programs will say so
    return None
