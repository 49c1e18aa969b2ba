"""A network of hosts on this machine."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from gpuproof.agent.hosts.egress import LOOPBACK, Egress, proxy_variables
from gpuproof.agent.hosts.host_entry import HostEntry, enter_host
from gpuproof.agent.isolation.hosts_file import hosts_file, read_hosts_file

MAX_HOSTS = 254
"""Addresses in a network."""

# Works from a folder and from the agent's archive.
_START = "import sys; sys.path[:0] = sys.argv[1:2]; from gpuproof.agent.hosts.holder import main; sys.exit(main(sys.argv[2]))"
_ROOT = Path(__file__).parents[3]
_HTTP_PROXY = ""


class NetworkUnavailable(Exception):
    """This machine does not allow a network of hosts; the message is the reason."""


class HostNetwork:
    """Hosts with a network of their own on this machine; use `create`.

    Each has a loopback device, an interface `eth0` with an address, a host name, and an `/etc/hosts` with all hosts. The
    machine's own network stays as it is. Everything ends with `close`, or with this process.

    Args:
        addresses: the hosts' addresses by name.
        environment: the variables with which programs on any host find the way out; empty without egress.
    """

    def __init__(
        self,
        addresses: Mapping[str, str],
        environment: Mapping[str, str],
        entries: Mapping[str, HostEntry],
        holder: subprocess.Popen[bytes],
    ) -> None:
        self.addresses = addresses
        self.environment = environment
        self._entries = entries
        self._holder = holder

    @classmethod
    def create(cls, names: Sequence[str], egress: Egress | None = None) -> HostNetwork:
        """Create the network; safe in a process with threads.

        Args:
            names: the hosts' names.
            egress: what the hosts reach outside; None is nothing.

        Raises:
            NetworkUnavailable: this machine does not allow it.
        """
        if not sys.platform.startswith("linux"):
            raise NetworkUnavailable(f"{sys.platform} has no network namespaces")
        if len(names) > MAX_HOSTS:
            raise NetworkUnavailable(f"at most {MAX_HOSTS} hosts fit on one machine")
        addresses = _addresses(names, egress)
        forwards = egress.forwards if egress is not None else ()
        proxy = [(LOOPBACK, egress.proxy_port)] if egress is not None else []
        spec = {
            "hosts": list(addresses.items()),
            "listen": [*((forward.address, forward.port) for forward in forwards), *proxy],
            "targets": [*(forward.target for forward in forwards), *(_HTTP_PROXY for _ in proxy)],
        }
        holder = subprocess.Popen(
            [sys.executable, "-c", _START, str(_ROOT), json.dumps(spec)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd="/",
            # Ctrl-C in the terminal must not reach it.
            start_new_session=True,
        )
        assert holder.stdout is not None
        with holder.stdout:
            line = holder.stdout.readline()
        answer = json.loads(line or b'{"unavailable": "its process was killed"}')
        if "unavailable" in answer:
            _end(holder)
            raise NetworkUnavailable(answer["unavailable"])
        names_outside = egress.names if egress is not None else {}
        content = hosts_file({**names_outside, **addresses}, read_hosts_file())
        user = answer["user"][0] if answer["user"] else None
        named = len(answer["hostnames"]) == len(names)
        entries = {
            name: HostEntry(
                holder.pid, network, answer["hostnames"][number] if named else None, user, content
            )
            for number, (name, network) in enumerate(zip(names, answer["networks"]))
        }
        variables = {} if egress is None else proxy_variables(egress, addresses)
        return cls(addresses, variables, entries, holder)

    def __enter__(self) -> HostNetwork:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def entry(self, host: str) -> HostEntry:
        """Where a process enters a host: `enter_host`, or `gpuproof-agent --in-host`."""
        return self._entries[host]

    def join(self, host: str) -> None:
        """Move this process, a forked child with one thread, to a host; then it may execute a program.

        Raises:
            OSError: it is refused. The process must end then.
        """
        if self._holder.stdin is not None:
            # The parent's end alone keeps the network.
            self._holder.stdin.close()
        enter_host(self.entry(host))

    def close(self) -> None:
        """End the network. What still runs on a host can reach nothing outside, and then no other host."""
        _end(self._holder)


def _addresses(names: Sequence[str], egress: Egress | None) -> dict[str, str]:
    taken = [forward.address for forward in egress.forwards] if egress is not None else []
    network = next(
        network
        for network in (f"10.77.{number}." for number in range(256))
        if not any(address.startswith(network) for address in taken)
    )
    return {name: f"{network}{number}" for number, name in enumerate(names, 1)}


def _end(holder: subprocess.Popen[bytes]) -> None:
    if holder.stdin is not None:
        holder.stdin.close()
    holder.wait()
