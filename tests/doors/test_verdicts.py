"""The same timeline has the same verdict through every door, and within its resolution through `gpuproof audit`."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuproof.gpu.nvml import count_gpus
from support.cli_sandbox import CliSandbox
from support.door_timelines import LONG_TIMELINES, TIMELINES, Timeline
from support.doors import ATTACH, DOORS, Watched, audit
from support.nvml_stub import Scenario, build_library

pytestmark = [pytest.mark.journey, pytest.mark.slow]

EVERY_TIMELINE = pytest.mark.parametrize(
    "timeline",
    [*TIMELINES, *(pytest.param(timeline, marks=pytest.mark.nightly) for timeline in LONG_TIMELINES)],
    ids=lambda timeline: timeline.name,
)


@pytest.fixture
def watched(
    timeline: Timeline, cli: CliSandbox, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Watched:
    """The timeline's program, on a machine with its GPUs."""
    environment: dict[str, str] = {}
    if timeline.has_driver:
        scenario = Scenario(tmp_path / "gpus.txt").seen(tmp_path / "looks")
        # One build for all tests of this process.
        environment = scenario.environment(build_library(tmp_path_factory.getbasetemp() / "stub"))
        timeline.write(scenario, tmp_path)
    elif count_gpus():
        pytest.skip("this machine has an NVIDIA driver")
    cli.environment.update(environment)
    return Watched(cli, tmp_path, timeline.program(tmp_path), timeline.instance_type, environment)


@EVERY_TIMELINE
@pytest.mark.parametrize("door", DOORS)
def test_every_door_has_the_same_verdict(door: str, watched: Watched, timeline: Timeline) -> None:
    if door == ATTACH and not timeline.has_driver:
        pytest.skip("without NVML, nothing tells the program to stay until it is watched")
    assert DOORS[door](watched) == timeline.outcome


@EVERY_TIMELINE
def test_an_audit_has_the_verdict_that_values_by_the_minute_allow(
    watched: Watched, timeline: Timeline
) -> None:
    outcome, reason = audit(watched)
    assert outcome in timeline.by_minute, reason
