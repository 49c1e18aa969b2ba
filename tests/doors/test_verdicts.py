"""The same timeline has the same verdict through every door, and within its resolution through `gpuproof audit`."""

from __future__ import annotations

import json
import secrets
import sys

import pytest

from support.aws_emulator import running_emulator
from support.door_timelines import LONG_TIMELINES, TIMELINES, Timeline
from support.emulator_jobs import Account

from .conftest import Machine

pytestmark = [pytest.mark.journey, pytest.mark.slow]

EVERY_TIMELINE = pytest.mark.parametrize(
    "timeline",
    [*TIMELINES, *(pytest.param(timeline, marks=pytest.mark.nightly) for timeline in LONG_TIMELINES)],
    ids=lambda timeline: timeline.name,
)


@EVERY_TIMELINE
def test_run(machine: Machine, timeline: Timeline) -> None:
    result = machine.cli.run_json("train.py", "--instance-type", timeline.instance_type)
    assert result["verdict"]["outcome"] == timeline.outcome


@EVERY_TIMELINE
def test_watch(machine: Machine, timeline: Timeline) -> None:
    verdict = _watched(machine, "--", sys.executable, str(machine.program))
    assert verdict["outcome"] == timeline.outcome


@EVERY_TIMELINE
def test_audit(machine: Machine, timeline: Timeline, monkeypatch: pytest.MonkeyPatch) -> None:
    """The emulator's machine has the timeline's GPUs, and publishes what its job did with them."""
    for name, value in machine.environment.items():
        monkeypatch.setenv(name, value)
    with running_emulator(machine.folder) as emulator:
        name = f"d-{secrets.token_hex(4)}"
        aws = Account(emulator, emulator.bucket(name), name)
        resources = {"InstanceType": timeline.instance_type, "InstanceCount": 1, "VolumeSizeInGB": 30}
        job = aws.trained(f"exec {sys.executable} {machine.program}", ResourceConfig=resources)
        assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
        machine.cli.environment.update(emulator.environment)
        done = machine.cli.gpuproof(
            "audit", job["TrainingJobName"], "--region", "us-east-1", "--format", "json"
        )
        assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout)["jobs"]
    assert found["verdict"] in timeline.by_minute, found["reason"]


def _watched(machine: Machine, *words: str) -> dict[str, object]:
    """The verdict that `gpuproof watch` leaves in its report."""
    report = machine.folder / "report.json"
    machine.cli.gpuproof("watch", "--report", report, *words)
    return json.loads(report.read_text())["verdict"]
