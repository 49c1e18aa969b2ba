"""For all tests: signals work as at a terminal, AWS's service descriptions are read once, long tests run first."""

from __future__ import annotations

import functools
import gc
import os
import signal
from collections.abc import Iterator

import botocore.session
import hypothesis
import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Prepare the process that runs the tests."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_FailuresAtOnce(config), "failures-at-once")
    # On a busy machine, an example may take any time. Examples are the same in each run, but for `make nightly`.
    hypothesis.settings.register_profile(
        "any machine",
        deadline=None,
        suppress_health_check=[hypothesis.HealthCheck.too_slow],
        derandomize="GPUPROOF_NEW_EXAMPLES" not in os.environ,
    )
    hypothesis.settings.load_profile("any machine")
    # A shell starts what runs in its background with SIGINT ignored, and programs would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # Each boto3 session would read the descriptions of its services again, which takes a tenth of a second each.
    botocore.session.create_loader = functools.cache(botocore.session.create_loader)
    # Ten thousand tests and their modules stay in memory: with Python's thresholds, an eighth of the time is spent on
    # searching them for garbage.
    gc.set_threshold(200_000, 20, 20)


class _FailuresAtOnce:
    """Prints the name and the error of a test when it fails: a suite that is ended never prints its summary.

    Args:
        config: of the process that reports, not of one of its workers.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        terminal = self._config.pluginmanager.get_plugin("terminalreporter")
        if report.failed and terminal is not None:
            lines = report.longreprtext.splitlines()
            errors = (line[1:].strip() for line in lines if line.startswith("E "))
            # The traceback of a group of exceptions is drawn, and ends with the innermost.
            last = (text for line in reversed(lines) if (text := line.strip(" |+-")))
            error = next(errors, next(last, ""))
            terminal.write_line(
                f"\n{report.nodeid} failed after {report.duration:.0f} s ({report.when}): {error}"
            )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Group and order the tests for several workers (`-n N --dist loadgroup --no-loadscope-reorder`).

    Slow tests that share a fixture of their module run in one worker, so that it is set up once. Groups come first, then
    other slow tests, then the rest: one that began last would keep one worker busy while the others idle.
    """
    for item in items:
        if is_slow(item) and shares_fixture(item) and item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(f"{item.path.parent.name}-{item.path.stem}"))
    items.sort(key=lambda item: (not is_slow(item), item.get_closest_marker("xdist_group") is None))


def is_slow(item: pytest.Item) -> bool:
    """Whether `make quick` leaves the test out."""
    return any(item.get_closest_marker(name) for name in ("slow", "journey"))


def shares_fixture(item: pytest.Item) -> bool:
    """Whether the test uses a fixture that is set up once for its module."""
    fixtures = item._fixtureinfo.name2fixturedefs.values() if isinstance(item, pytest.Function) else ()
    return any(found[-1].scope == "module" for found in fixtures)


@pytest.fixture(autouse=True)
def _signals_are_handled_as_before() -> Iterator[None]:
    """Restore the handlers that a test replaced in the process it shares with other tests, as `rt.checkpoint` does for good."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in handlers.items():
        if signal.getsignal(number) is not handler:
            signal.signal(number, handler)
