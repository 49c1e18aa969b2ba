"""What a launcher knows about the host, and what it returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from gpuproof.agent.contract import Machine
from gpuproof.agent.job import AgentJob
from gpuproof.agent.paths import RunPaths

# More than one: the ports of one host, such as 2222 and 2223, may be adjacent.
_PORTS_PER_HOST = 10


@dataclass(frozen=True)
class LaunchContext:
    """What a launcher knows.

    Args:
        job: the job; `hosts`, `current_host` and the launcher's options are in it.
        machine: processors and GPUs of this host, and SageMaker's `resourceconfig.json`.
        script: the command that starts one process of the script, such as `["/usr/bin/python3", "train.py", "--lr", "1"]`.
        interface: the network interface between the hosts, if this host has it.
    """

    job: AgentJob
    paths: RunPaths
    machine: Machine
    script: tuple[str, ...]
    interface: str | None = None

    @property
    def hosts(self) -> tuple[str, ...]:
        """All hosts in the order of `SM_HOSTS`, which is the same on every host."""
        return tuple(sorted(self.job.hosts))

    @property
    def index(self) -> int:
        """Index of this host, from 0."""
        return self.hosts.index(self.job.current_host)

    @property
    def processes_per_host(self) -> int:
        """Processes that a launcher starts on each host: as the job requests, or else one per GPU, or else one."""
        return self.job.processes_per_host or self.machine.gpus or 1

    def address(self, host: str) -> str:
        """The name or address at which other hosts reach a host."""
        return self.job.addresses.get(host, host)

    def port(self, port: int, host: str) -> int:
        """A port of a host: hosts that share one network must not share ports."""
        return port + self.port_offset(host)

    def port_offset(self, host: str) -> int:
        """What a host adds to each of its ports: 0 where it has a network of its own."""
        return _PORTS_PER_HOST * self.hosts.index(host) if self.job.shared_network else 0

    def endpoint(self, host: str, port: int) -> str:
        """Address and port at which other hosts reach a port of a host, such as `algo-1:7777`."""
        return f"{self.address(host)}:{self.port(port, host)}"


@dataclass(frozen=True)
class HostLaunch:
    """What to start on this host.

    Args:
        environment: the launcher's variables; those that the user has set, in the job or around it, take precedence.
        files: files for the launcher's programs, with their content; only the user who runs the job may read them.
        programs: programs that must be on the script's `PATH`, with what to do if one is missing.
    """

    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[Path, str] = field(default_factory=dict)
    programs: Mapping[str, str] = field(default_factory=dict)


class Launcher(Protocol):
    """Decides what to start on one host. Pure: it starts nothing and reads no file."""

    def __call__(self, context: LaunchContext) -> HostLaunch: ...
