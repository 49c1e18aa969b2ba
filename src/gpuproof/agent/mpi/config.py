"""What the MPI programs of one host need to know: a private file in the run's folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

RUN, HOST, CONNECT = "--mpi-run", "--mpi-host", "--mpi-connect"
"""The agent's options for the programs of the first host, of the others, and of each of mpirun's connections."""
PORT = 7791
"""Port on which all hosts but the first accept connections of the first."""


@dataclass(frozen=True)
class MpiConfig:
    """One host's part of an MPI job.

    Args:
        hosts: all hosts; mpirun runs on the first.
        folder: where mpirun is searched for if it is not on `PATH`: the folder of the script's interpreter.
        processes: ranks per host.
        interface: the network interface between the hosts; empty if Open MPI chooses.
        variables: more variables for all ranks.
        shared_network: whether all hosts are processes in one network.
        addresses: where hosts can be reached, if not by name.
        ports: port of each host but the first.
        patience: seconds that hosts wait for each other at the start.
    """

    hosts: tuple[str, ...]
    current_host: str
    folder: str = ""
    processes: int = 1
    options: tuple[str, ...] = ()
    interface: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)
    shared_network: bool = False
    addresses: Mapping[str, str] = field(default_factory=dict)
    ports: Mapping[str, int] = field(default_factory=dict)
    key: str = ""
    patience: float = 900.0

    @classmethod
    def read(cls, path: Path) -> MpiConfig:
        """Read a host's file."""
        document = json.loads(path.read_text(encoding="utf-8"))
        hosts, options = (tuple(document.pop(name)) for name in ("hosts", "options"))
        return cls(**document, hosts=hosts, options=options)

    def to_json(self) -> str:
        """The content of the file."""
        return json.dumps(asdict(self))

    @property
    def first(self) -> str:
        """The host on which mpirun runs."""
        return self.hosts[0]

    @property
    def others(self) -> tuple[str, ...]:
        """All hosts but the first."""
        return self.hosts[1:]

    def endpoint(self, host: str) -> tuple[str, int]:
        """Address and port of a host."""
        return self.addresses.get(host, host), self.ports.get(host, PORT)

    @property
    def secret(self) -> bytes:
        """The key that authenticates the hosts to each other."""
        return bytes.fromhex(self.key)
