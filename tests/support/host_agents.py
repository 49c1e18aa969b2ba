"""The hosts of one job, each with its own agent, and with a network of its own where this machine allows it."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpuproof.agent.hosts import Egress, HostNetwork, NetworkUnavailable
from gpuproof.backends.agent_job.archive import build_agent

_PATIENCE = 600.0
_OURS = ("SM_", "TF_", "GPUPROOF_")


@dataclass
class Host:
    """What came of one host."""

    folder: Path
    code: int

    @property
    def run(self) -> dict[str, Any]:
        return json.loads((self.folder / "run.json").read_text())

    @property
    def log(self) -> str:
        return "".join(
            path.read_text(errors="replace") for path in sorted((self.folder / "logs").glob("*.log"))
        )

    @property
    def ml(self) -> Path:
        return self.folder / "ml"

    @property
    def printed(self) -> dict[str, Any]:
        """The last line of JSON that its script printed."""
        lines = [line for line in self.log.splitlines() if line.startswith("{")]
        assert lines, self.log
        return json.loads(lines[-1])


@dataclass
class HostAgents:
    """Runs jobs of several hosts.

    Args:
        folder: for the runs.
    """

    folder: Path
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def run(
        self,
        run: str,
        files: Mapping[str, str],
        hosts: int,
        launcher: str,
        environment: Mapping[str, str] | None = None,
        **job: Any,
    ) -> list[Host]:
        """Run the first of these files on all hosts, until the last one has ended."""
        names = [f"algo-{number}" for number in range(1, hosts + 1)]
        with contextlib.ExitStack() as stack:
            try:
                network = stack.enter_context(HostNetwork.create(names, Egress.from_environment(os.environ)))
            except NetworkUnavailable:
                network = None
                job |= {"shared_network": True}
            for name in names:
                self._prepare(self.folder / run / name, files, names, name, launcher, environment or {}, job)
            started = [self._start(self.folder / run / name, name, network) for name in names]
            try:
                codes = [process.wait(_PATIENCE) for process in started]
            except subprocess.TimeoutExpired:
                logs = [Host(self.folder / run / name, -1).log for name in names]
                raise AssertionError("\n".join(["the job did not end", *logs])) from None
        return [Host(self.folder / run / name, code) for name, code in zip(names, codes, strict=True)]

    def kill(self) -> None:
        """End what still runs."""
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.wait(300)

    def _prepare(
        self,
        folder: Path,
        files: Mapping[str, str],
        hosts: Sequence[str],
        host: str,
        launcher: str,
        environment: Mapping[str, str],
        job: Mapping[str, Any],
    ) -> None:
        code = folder / "ml" / "code"
        code.mkdir(parents=True)
        for name, text in files.items():
            (code / name).write_text(text)
        build_agent(folder / "gpuproof-agent.pyz")
        checkpoints = folder / "checkpoints"
        checkpoints.mkdir()
        (folder / "logs").mkdir()
        document = {
            "version": 1,
            "run_id": "several-20260101-000000-abcd",
            "job_name": "several",
            "kind": "training",
            "entry_point": next(iter(files)),
            "python": sys.executable,
            "checkpoints": str(checkpoints),
            "hosts": [*hosts],
            "current_host": host,
            "launcher": launcher,
            "require_gpu": False,
            "environment": {"TF_CPP_MIN_LOG_LEVEL": "3", **environment},
            **job,
        }
        (folder / "job.json").write_text(json.dumps(document))

    def _start(self, folder: Path, host: str, network: HostNetwork | None) -> subprocess.Popen[bytes]:
        agent = [sys.executable, str(folder / "gpuproof-agent.pyz")]
        entry = [*agent, "--in-host", network.entry(host).to_json()] if network is not None else []
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
        with (folder / "agent.log").open("wb") as log:
            process = subprocess.Popen(
                [*entry, *agent, str(folder)],
                cwd=folder,
                env={**inherited, **(network.environment if network is not None else {})},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self.started.append(process)
        return process
