"""Runs training scripts in processes of their own with the hooks that time their steps."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import gpuproof
from gpuproof.agent.verdict import Bottleneck
from gpuproof.agent.verdict.limiting_phase import Machine, limiting_phase
from gpuproof.agent.verdict.steps import host_steps
from gpuproof.gpu.telemetry import Waiting

_SHIMS = Path(gpuproof.__file__).parent / "runtime" / "shims"


def recorded(folder: Path, code: str, **variables: str) -> dict[str, Any]:
    """What the script, `train.py`, has recorded of its steps.

    Args:
        variables: further environment variables.
    """
    run_script(folder, code, GPUPROOF_STEPS=str(folder / "steps"), **variables)
    (path,) = (folder / "steps").glob("*.json")
    document: dict[str, Any] = json.loads(path.read_bytes())
    return document


def run_script(folder: Path, code: str, **variables: str) -> str:
    """The standard output of `train.py`; hooks only with `GPUPROOF_STEPS`."""
    (folder / "train.py").write_text(code)
    environment = {name: value for name, value in os.environ.items() if name != "GPUPROOF_STEPS"}
    environment |= {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": str(_SHIMS)}
    environment |= variables
    done = subprocess.run(
        [sys.executable, "train.py"], cwd=folder, env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def bottleneck(document: dict[str, Any], vcpus: int = 8) -> Bottleneck | None:
    """What the verdict says about a script without a GPU."""
    steps = host_steps([document])
    assert steps is not None
    return limiting_phase(steps, Machine(steps.total.seconds, vcpus, 0.0, (), Waiting()))


def share(document: dict[str, Any], *phases: str) -> float:
    """The share of phases in the time of the steps."""
    total: float = sum(document["phases"][phase] for phase in phases)
    return total / document["seconds"]


def line_of(code: str, text: str) -> int:
    """The number of the only line with this text."""
    (number,) = [number for number, line in enumerate(code.splitlines(), 1) if text in line]
    return number
