"""Agents of several hosts as processes of this machine, in one network, each with a run folder of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpuproof.agent.job import VERSION
from gpuproof.agent.paths import RunPaths
from support.ports import free_port

KEY = "00" * 32
_PATIENCE = 300.0


@dataclass
class AgentHosts:
    """The hosts of one job.

    Args:
        folder: an empty folder.
        agent: the agent's file.
        count: number of hosts.
        job: further values of `job.json`.
    """

    folder: Path
    agent: Path
    count: int
    job: Mapping[str, Any] = field(default_factory=dict)
    port: int = field(default_factory=free_port)
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        return [f"algo-{number}" for number in range(1, self.count + 1)]

    def paths(self, host: str) -> RunPaths:
        return RunPaths(self.folder / host)

    def start(self, script: str, hosts: list[str] | None = None, **job: Any) -> None:
        """Start the agents of some hosts, or of all; each runs the same script."""
        for host in hosts or self.names:
            paths = self.paths(host)
            (paths.ml / "code").mkdir(parents=True, exist_ok=True)
            paths.logs.mkdir(exist_ok=True)
            paths.checkpoints.mkdir(exist_ok=True)
            (paths.ml / "code" / "train.py").write_text(script)
            document = {
                "version": VERSION,
                "run_id": "test",
                "job_name": "test",
                "kind": "training",
                "entry_point": "train.py",
                "python": sys.executable,
                "checkpoints": str(paths.checkpoints),
                "hosts": self.names,
                "current_host": host,
                "cluster_key": KEY,
                "addresses": dict.fromkeys(self.names, "127.0.0.1"),
                "shared_network": True,
                "cluster_port": self.port,
                "rendezvous_timeout": 60.0,
                **self.job,
                **job,
            }
            paths.job.write_text(json.dumps(document))
            with paths.agent_log.open("wb") as log:
                self.processes[host] = subprocess.Popen(
                    [sys.executable, "-I", str(self.agent), str(paths.root)],
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )

    def signal(self, host: str, number: int) -> None:
        """Send a signal to the agent of a host."""
        self.processes[host].send_signal(number)

    def wait(self) -> dict[str, dict[str, Any]]:
        """Wait until all agents have ended; return what is in each one's `run.json`."""
        for process in self.processes.values():
            process.wait(_PATIENCE)
        return {host: self.state(host) for host in self.processes}

    def state(self, host: str) -> dict[str, Any]:
        return json.loads(self.paths(host).run.read_text())

    def log(self, host: str) -> str:
        return self.paths(host).log(host).read_text() if self.paths(host).log(host).exists() else ""

    def failure(self, host: str) -> str:
        return self.paths(host).failure("training").read_text()

    def end(self) -> None:
        """Kill what is left."""
        for process in self.processes.values():
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
