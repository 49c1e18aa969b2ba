"""Journeys through the command line: each test has a machine's worth of folders to itself."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cli_sandbox import CliSandbox


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[CliSandbox]:
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    project.mkdir()
    yield CliSandbox(home, project)
    _end_agents(home)


def _end_agents(home: Path) -> None:
    for path in home.rglob("run.json"):
        agent = json.loads(path.read_text()).get("agent_pid")
        command = Path(f"/proc/{agent}/cmdline")
        if agent is not None and command.exists() and str(path.parent) in command.read_text():
            os.kill(agent, signal.SIGKILL)
