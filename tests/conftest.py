"""For all tests: Ctrl-C works here as at a terminal."""

from __future__ import annotations

import signal


def pytest_configure() -> None:
    """A shell starts what runs in its background with SIGINT ignored, and programs would inherit that."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
