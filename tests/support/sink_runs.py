"""Runs sinks in their real processes, as the agent does."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpuproof.agent.job import AgentJob
from gpuproof.agent.paths import RunPaths
from gpuproof.agent.sinks.export import Export
from gpuproof.agent.sinks.series import Series
from gpuproof.gpu.nvml import GpuReading
from gpuproof.gpu.telemetry import Sample

LIMIT_S = 300.0
"""How long sinks may take in tests: it only ends a test that fails."""

VERDICT: dict[str, Any] = {
    "version": 2,
    "outcome": "used",
    "reason": "1 of 1 GPU worked",
    "gpus_expected": 1,
    "gpus_working": 1,
    "gpus": [{"index": 0, "mean_utilization": 87.5, "peak_memory": 9_000_000_000}],
}


@dataclass
class SinkRun:
    """A run with sinks.

    Args:
        agent: the agent's archive.
        python: the job's Python.
        variables: of the script.
    """

    folder: Path
    agent: Path
    python: str
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def paths(self) -> RunPaths:
        return RunPaths(self.folder)

    def export(self, *sinks: str, hosts: tuple[str, ...] = ("algo-1",), kind: str = "training") -> Export:
        for name in ("code", "model", "output/data"):
            (self.paths.ml / name).mkdir(parents=True, exist_ok=True)
        job = AgentJob(
            run_id="train-cats-1",
            job_name="train-cats",
            kind=kind,
            entry_point="train.py",
            python=self.python,
            checkpoints="",
            sinks=sinks,
            hosts=hosts,
        )
        environment = {**os.environ, **self.variables}
        return Export(job, self.paths, environment, Series(list, list), time.time(), agent=self.agent)

    def report(self, sink: str) -> Mapping[str, Any]:
        return json.loads((self.paths.root / "sinks" / f"{sink}.json").read_text())


def run_python(python: Path, code: str, folder: Path, variables: Mapping[str, str]) -> str:
    """What a program prints in another Python."""
    done = subprocess.run(
        [str(python), "-c", code],
        cwd=folder,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def sample(t: float, dt: float = 1.0, **values: Any) -> Sample:
    """A sample of one GPU."""
    known = {"utilization": 80, "memory_used": 9_000_000_000, "power_w": 150.0, "temperature_c": 61}
    return Sample(t=t, dt=dt, gpus=(GpuReading(index=0, **{**known, **values}),))
