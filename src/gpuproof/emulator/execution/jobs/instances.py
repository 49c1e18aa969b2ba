"""The instances of one job: disks, containers, logs; the same for training and processing."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuproof.emulator.clients import Clients
from gpuproof.emulator.execution.host import Host
from gpuproof.emulator.execution.interpreters import base_environment
from gpuproof.emulator.execution.jobs.job_control import Control
from gpuproof.emulator.execution.jobs.log_shipper import LogStream
from gpuproof.emulator.store import Resource

if TYPE_CHECKING:
    from gpuproof.emulator.emulator import Emulator

CANNOT_START = "CannotStartContainerError. Please make sure the container can be run: {problem}"


class Instances:
    """The instances of one attempt at a job.

    Args:
        emulator: everything there is.
        job: whose instances they are.
        control: is woken when a container ends.
        folder: where their disks lie.
        count: how many.
    """

    def __init__(self, emulator: Emulator, job: Resource, control: Control, folder: Path, count: int) -> None:
        self._emulator = emulator
        self._job = job
        self.hosts = [
            Host(f"algo-{number}", folder / f"algo-{number}", control.wake) for number in range(1, count + 1)
        ]

    @property
    def names(self) -> list[str]:
        """The hosts' names."""
        return [host.name for host in self.hosts]

    def start(
        self,
        image: str,
        command: Sequence[str],
        environment: Callable[[Host], Mapping[str, str]],
        group: str,
        seen: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Start every container, and send what it prints to CloudWatch Logs.

        Args:
            environment: the job's own variables for a host.
            group: the log group.
            seen: gets every line of every host.
        """
        logs = self._emulator.clients.get("logs", self._job.region)
        for host in self.hosts:
            stream = LogStream(logs, group, f"{self._job.name}/{host.name}-{int(time.time())}", seen)
            base = base_environment(self._emulator.options, image, host.home, os.environ)
            host.start(
                command, {**base, **self._emulator.options.environment, **environment(host)}, stream.copy
            )

    def credentials(self, role: str) -> dict[str, str]:
        """What the containers need to call the emulator as the job's role."""
        clients, job = self._emulator.clients, self._job
        return role_environment(clients, job.region, role, job.name)

    def failing_host(self) -> Host | None:
        """The host whose container was the first not to end well; the others were ended because of it."""
        failing = [host for host in self.hosts if host.outcome is not None and host.outcome.code != 0]
        return min(failing, key=lambda host: host.ended_at, default=None)


def role_environment(clients: Clients, region: str, role: str, name: str) -> dict[str, str]:
    """What a container needs to call the emulator as a role.

    Args:
        name: of the job or endpoint, for the role's session.
    """
    session = f"SageMaker-{name}"[:64]
    given = clients.get("sts", region).assume_role(RoleArn=role, RoleSessionName=session)["Credentials"]
    return {
        "AWS_ENDPOINT_URL": clients.url,
        "AWS_ACCESS_KEY_ID": given["AccessKeyId"],
        "AWS_SECRET_ACCESS_KEY": given["SecretAccessKey"],
        "AWS_SESSION_TOKEN": given["SessionToken"],
    }


def region_environment(region: str) -> dict[str, str]:
    """The region, as every AWS SDK reads it."""
    return {"AWS_REGION": region, "AWS_DEFAULT_REGION": region}


def text_of(path: Path, most: int = 1024) -> str:
    """The beginning of a small file of the script's; empty if there is none."""
    try:
        with path.open("rb") as file:
            return file.read(most * 4).decode("utf-8", "replace")[:most].strip()
    except OSError:
        return ""


def write_json(path: Path, document: Any) -> None:
    """Write a configuration file of the contract."""
    import json

    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document), encoding="utf-8")
