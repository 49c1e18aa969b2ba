"""One emulated account for all simulated instances of a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.aws_emulator import running_emulator
from support.ec2_host_jobs import HostJobs
from support.simulated_instance import require_simulated_instance


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostJobs]:
    require_simulated_instance()
    folder = tmp_path_factory.mktemp("ec2")
    with running_emulator(folder) as emulator:
        yield HostJobs(emulator, folder)


@pytest.fixture(autouse=True)
def only_results_are_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """Whatever happened on an instance, nothing but its reports and results is left in the account."""
    yield
    if "jobs" in request.fixturenames:
        request.getfixturevalue("jobs").assert_only_results_are_left()
