"""The generated flags and `docs/cli.md` are those of the models and commands that there are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("tool", ["build_options.py", "build_cli_docs.py", "build_llms_txt.py"])
def test_the_generated_file_is_current(tool: str) -> None:
    command = [sys.executable, str(ROOT / "tools" / tool), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}run tools/{tool}"
