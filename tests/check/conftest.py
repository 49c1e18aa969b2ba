"""Projects of the linter's tests lie deeper than it looks for scripts, so that the contents of /tmp cannot matter."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuproof.linter.source.project_root import LEVELS


@pytest.fixture
def tmp_path(tmp_path: Path) -> Path:
    """A folder whose `LEVELS` parents belong to the test alone."""
    folder = tmp_path.joinpath(*(f"level{number}" for number in range(LEVELS)))
    folder.mkdir(parents=True)
    return folder
