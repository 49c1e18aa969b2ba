"""Folders for the commands of a test."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.cli_sandbox import CliSandbox


@pytest.fixture
def cli(tmp_path: Path) -> CliSandbox:
    """Runs commands in folders of the test's own."""
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    project.mkdir()
    return CliSandbox(home, project)
