"""What the verdict says about training scripts that run in processes of their own, with the hooks that time their steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpuproof.agent.verdict import Bottleneck, Expectation, judge
from gpuproof.agent.verdict.evidence import Steps
from gpuproof.agent.verdict.limiting_phase import Machine, limiting_phase, with_limiting_phase
from gpuproof.agent.verdict.steps import host_steps
from gpuproof.gpu.telemetry import Telemetry, Waiting
from support.timed_scripts import run_timed

_MINUTE_S = 60.0


def recorded(folder: Path, code: str, **variables: str) -> dict[str, Any]:
    """What the script, `train.py`, has recorded of its steps.

    Args:
        variables: further environment variables.
    """
    timed = run_timed(folder, code, TF_CPP_MIN_LOG_LEVEL="3", **variables)
    assert timed.code == 0, timed.errors
    (document,) = timed.records
    return document


def bottleneck(document: dict[str, Any], vcpus: int = 8) -> Bottleneck | None:
    """What the verdict says about a script without a GPU."""
    steps = _steps_in(_MINUTE_S, document)
    return limiting_phase(steps, Machine(steps.total.seconds, vcpus, 0.0, (), Waiting()))


def bottleneck_on_gpu(document: dict[str, Any], telemetry: Telemetry) -> Bottleneck | None:
    """What the verdict would say first about a script that had a GPU with this telemetry, and trained as long."""
    steps = _steps_in(telemetry.seconds, document)
    verdict = judge(Expectation(), telemetry, steps)
    machine = Machine(telemetry.seconds, 8, 0.0, verdict.gpus, telemetry.waiting)
    return next(iter(with_limiting_phase(verdict.bottlenecks, steps, machine)), None)


def _steps_in(seconds: float, document: dict[str, Any]) -> Steps:
    """The steps as they would be if they had taken so long: a fast machine's are too short for a verdict."""
    longer = seconds / document["seconds"]
    phases = {name: longer * value for name, value in document["phases"].items()}
    places = {
        name: {**place, "seconds": longer * place["seconds"]} for name, place in document["locations"].items()
    }
    steps = host_steps([{**document, "seconds": seconds, "phases": phases, "locations": places}])
    assert steps is not None
    return steps


def share(document: dict[str, Any], *phases: str) -> float:
    """The share of phases in the time of the steps."""
    total: float = sum(document["phases"][phase] for phase in phases)
    return total / document["seconds"]


def line_of(code: str, text: str) -> int:
    """The number of the only line with this text."""
    (number,) = [number for number, line in enumerate(code.splitlines(), 1) if text in line]
    return number
