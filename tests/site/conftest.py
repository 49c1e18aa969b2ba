"""The documentation site, built once for all tests of this folder."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from support.built_site import BuiltSite

TOOL = Path(__file__).parents[2] / "tools" / "build_site.py"


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> BuiltSite:
    """The site as `make docs` builds it; skips where the packages for it are not installed."""
    if find_spec("zensical") is None or find_spec("mkdocstrings") is None:
        pytest.skip("the dependency group docs is not installed")
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, str(TOOL), "--output", str(folder)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return BuiltSite(folder / "site")
