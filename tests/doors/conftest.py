"""A machine whose GPUs a timeline decides, on which each door of GPUproof watches the same program."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from gpuproof.gpu.nvml import count_gpus
from support.cli_sandbox import CliSandbox
from support.door_timelines import Timeline
from support.nvml_stub import Scenario, build_library


@dataclass(frozen=True)
class Machine:
    """A machine with a program to watch.

    Args:
        cli: runs commands on it.
        folder: the test's.
        program: the path of the program, which only needs Python.
        environment: the variables that show the timeline's GPUs to a process.
    """

    cli: CliSandbox
    folder: Path
    program: Path
    environment: dict[str, str]


@pytest.fixture
def machine(timeline: Timeline, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Machine:
    """The machine of a timeline; the test has it as a parameter."""
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    project.mkdir()
    environment: dict[str, str] = {}
    if timeline.has_driver:
        scenario = Scenario(tmp_path / "gpus.txt").seen(tmp_path / "looks")
        # One build for all tests of this process.
        environment = scenario.environment(build_library(tmp_path_factory.getbasetemp() / "stub"))
        timeline.write(scenario, tmp_path)
    elif count_gpus():
        pytest.skip("this machine has an NVIDIA driver")
    cli = CliSandbox(home, project, dict(environment))
    return Machine(cli, tmp_path, cli.write("train.py", timeline.program(tmp_path)), environment)
