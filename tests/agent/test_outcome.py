"""How a run ends, and what it tells SageMaker."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuproof.agent.failure import StopReason
from gpuproof.agent.outcome import Outcome
from gpuproof.agent.ranks.host_failure import Failure


@pytest.fixture
def failure(tmp_path: Path) -> Path:
    return tmp_path / "output" / "failure"


def test_the_first_reason_counts() -> None:
    outcome = Outcome()
    assert outcome.completed
    outcome.record("Failed", "first")
    outcome.record("Stopped", "second")
    assert (outcome.status, outcome.why) == ("Failed", "first")


def test_what_all_hosts_have_decided_replaces_it() -> None:
    outcome = Outcome()
    outcome.record("Failed", "the connection was closed")
    outcome.follow(Failure(0.0, "ValueError", host="algo-2", code="gpu-unused", secondary="Failed"))
    assert (outcome.status, outcome.why) == ("Failed", "algo-2: ValueError")
    assert outcome.code is StopReason.GPU_UNUSED


def test_a_host_that_was_stopped_itself_says_so() -> None:
    outcome = Outcome()
    outcome.record("Stopped", "stopped on request")
    outcome.follow(Failure(0.0, "stopped on request", host="algo-2", status="Stopped"))
    assert outcome.why == "stopped on request"


def test_a_host_that_was_stopped_because_of_a_failure_reports_the_failure() -> None:
    outcome = Outcome()
    outcome.record("Stopped", "stopped on request")
    outcome.follow(Failure(0.0, "ValueError", host="algo-2"))
    assert (outcome.status, outcome.why) == ("Failed", "algo-2: ValueError")


def test_the_scripts_message_is_kept_and_follows_the_agents_reason(failure: Path) -> None:
    failure.parent.mkdir()
    failure.write_text("bad disk")
    outcome = Outcome("Stopped", "stopped on request", code=StopReason.GPU_UNUSED)
    outcome.write_failure(failure, "stopped on request", by_agent=True)
    assert failure.read_text() == "[gpu-unused] stopped on request; it left the message: bad disk"


def test_a_message_that_is_the_reason_already_is_not_repeated(failure: Path) -> None:
    failure.parent.mkdir()
    failure.write_text("bad disk")
    outcome = Outcome("Failed", "algo-2: bad disk")
    outcome.write_failure(failure, "algo-2: bad disk", by_agent=True)
    assert failure.read_text() == "algo-2: bad disk"
