"""For all tests: Ctrl-C works as at a terminal, AWS's service descriptions are read once, long tests run first."""

from __future__ import annotations

import functools
import signal

import botocore.session
import pytest


def pytest_configure() -> None:
    """Prepare the process that runs the tests."""
    # A shell starts what runs in its background with SIGINT ignored, and programs would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # Each boto3 session would read the descriptions of its services again, which takes a tenth of a second each.
    botocore.session.create_loader = functools.cache(botocore.session.create_loader)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put long tests first: one that began last would keep one worker busy while the others idle."""
    items.sort(key=lambda item: not any(item.get_closest_marker(name) for name in ("slow", "journey")))
