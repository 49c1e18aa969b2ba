"""`docs/cli.md` lists the commands and options that there are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_cli_reference_is_current() -> None:
    command = [sys.executable, str(ROOT / "tools" / "build_cli_docs.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}run tools/build_cli_docs.py"
