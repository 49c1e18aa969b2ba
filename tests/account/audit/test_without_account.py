"""Without credentials and without a region, commands that read several regions say what is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuproof.errors import ExitCode
from support.cli_sandbox import CliSandbox

pytestmark = pytest.mark.slow


@pytest.fixture
def alone(tmp_path: Path) -> CliSandbox:
    """`gpuproof` without an account."""
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    project.mkdir()
    return CliSandbox(home, project, {"AWS_EC2_METADATA_DISABLED": "true"})


def test_an_audit_needs_credentials_and_no_region(alone: CliSandbox) -> None:
    done = alone.gpuproof("audit")
    assert done.returncode == ExitCode.UNDECIDED
    assert "Unable to locate credentials" in done.stderr


def test_a_cleanup_needs_a_region(alone: CliSandbox) -> None:
    done = alone.gpuproof("cleanup")
    assert done.returncode == ExitCode.USAGE
    assert "No AWS region is set." in done.stderr
