"""Skips tests whose scripts need a package that is not installed, without importing it.

`pytest.importorskip` would import it into each process that collects the tests, which takes seconds for a framework.
"""

from __future__ import annotations

from importlib.util import find_spec

import pytest


def skip_without(*packages: str) -> None:
    """Skip the tests of the calling module unless all of these packages are installed."""
    missing = [package for package in packages if find_spec(package) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}", allow_module_level=True)
