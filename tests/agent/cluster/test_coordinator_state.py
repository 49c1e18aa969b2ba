"""What the coordinator decides, by a clock that the test sets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from gpuproof.agent.cluster.coordinator_state import CoordinatorState, Outgoing, Phase
from gpuproof.agent.cluster.messages import Kind, ProtocolError, message
from gpuproof.agent.cluster.timing import Timing
from gpuproof.agent.ranks.host_failure import Cause, Failure

HOSTS = ("algo-1", "algo-2", "algo-3")
UNIX = 1_000_000.0
TIMING = Timing(rendezvous=600, heartbeat=5, lost=30, own=1, consequence=3, absent=10, stacks=60, stall=120)


class Job:
    """A coordinator whose clock starts at 0."""

    def __init__(self, timing: Timing = TIMING, hosts: Sequence[str] = HOSTS) -> None:
        self.hosts = hosts
        self.state = CoordinatorState(hosts, timing, 0.0, UNIX)
        self.sent: list[Outgoing] = []

    def join(self, *hosts: str, at: float = 0.0) -> None:
        for host in hosts:
            self.sent += self.state.joined(host, at)

    def say(self, host: str, kind: Kind, at: float = 0.0, **values: Any) -> None:
        self.sent += self.state.received(host, message(kind, **values), at)

    def fail(self, host: str, text: str, at: float, cause: Cause = Cause.OWN) -> None:
        self.say(host, Kind.FAILED, at, failure=Failure(UNIX + at, text, cause, host).to_json())

    def lose(self, host: str, at: float) -> None:
        self.sent += self.state.lost(host, at)

    def tick(self, at: float, beating: Sequence[str] = HOSTS, idle: float = 0.0) -> None:
        for host in beating:
            self.say(host, Kind.HEARTBEAT, at, idle=idle)
        self.sent += self.state.tick(at)

    def start(self, at: float = 0.0) -> None:
        self.join(*self.hosts, at=at)
        for host in self.hosts:
            self.say(host, Kind.READY, at)
        self.sent.clear()

    def take(self) -> list[Kind]:
        """The kinds of messages to all hosts since the last call, without heartbeats."""
        kinds = [Kind(outgoing.message["kind"]) for outgoing in self.sent]
        self.sent.clear()
        return [kind for kind in kinds if kind is not Kind.HEARTBEAT]

    @property
    def why(self) -> str:
        assert self.state.failure is not None
        return self.state.failure.text


@pytest.fixture
def job() -> Job:
    return Job()


@pytest.fixture
def running(job: Job) -> Job:
    job.start()
    return job


def test_no_host_starts_before_all_are_ready(job: Job) -> None:
    job.join(*HOSTS)
    job.say("algo-1", Kind.READY)
    job.say("algo-2", Kind.READY)
    assert job.take() == []
    job.say("algo-3", Kind.READY)
    assert job.take() == [Kind.START]


def test_missing_hosts_are_named(job: Job) -> None:
    job.join("algo-1")
    job.tick(599.9, ["algo-1"])
    assert job.take() == []
    job.tick(600.0, ["algo-1"])
    assert job.take() == [Kind.STOP]
    assert job.why == "algo-2 and algo-3 did not report within 600 s"


def test_a_host_that_prepares_for_longer_is_waited_for(job: Job) -> None:
    job.join(*HOSTS)
    job.say("algo-1", Kind.READY)
    job.say("algo-2", Kind.READY)
    for second in range(0, 1500, 5):
        job.tick(float(second))
    assert job.take() == []
    job.say("algo-3", Kind.READY, 1500)
    assert job.take() == [Kind.START]


def test_only_hosts_of_the_job_may_join_and_only_once(job: Job) -> None:
    job.join("algo-2")
    assert job.state.accepts("algo-3")
    assert not job.state.accepts("algo-2")
    assert not job.state.accepts("algo-4")


def test_a_failure_stops_all_hosts_a_second_later(running: Job) -> None:
    running.fail("algo-2", "ValueError: no data", 50.0)
    assert running.take() == [Kind.GATHER]
    running.tick(50.9)
    assert running.take() == []
    running.tick(51.0)
    assert running.take() == [Kind.STOP]
    assert running.why == "algo-2: ValueError: no data"


def test_the_cause_may_be_reported_after_the_lost_connections(running: Job) -> None:
    running.fail("algo-1", "ConnectionResetError", 50.0, Cause.PEER)
    running.tick(52.0)
    assert running.take() == [Kind.GATHER]
    running.fail("algo-3", "was killed by SIGKILL", 52.1)
    running.tick(52.2)
    assert running.take() == [Kind.STOP]
    assert running.why == "algo-3: was killed by SIGKILL"


def test_a_lost_connection_without_another_cause_is_the_failure(running: Job) -> None:
    running.fail("algo-1", "ConnectionResetError", 50.0, Cause.PEER)
    running.tick(53.0)
    assert running.why == "algo-1: ConnectionResetError"


def test_a_silent_host_may_be_the_cause_of_lost_connections(running: Job) -> None:
    for second in range(5, 50, 5):
        running.tick(float(second), ["algo-1", "algo-2"] if second > 30 else HOSTS)
    running.fail("algo-1", "ConnectionResetError", 50.0, Cause.PEER)
    running.tick(55.0, ["algo-1", "algo-2"])
    assert running.take() == [Kind.GATHER]
    running.tick(60.0, ["algo-1", "algo-2"])
    assert running.take() == [Kind.STOP]
    assert running.why == "algo-3: connection lost: it sent nothing for 30 s"


def test_failures_after_the_decision_change_nothing(running: Job) -> None:
    running.fail("algo-2", "first", 50.0)
    running.tick(51.0)
    running.take()
    running.fail("algo-1", "earlier in time", 40.0)
    running.tick(60.0)
    assert running.take() == []
    assert running.why == "algo-2: first"


def test_a_host_whose_connection_ends_is_named(running: Job) -> None:
    running.lose("algo-3", 20.0)
    running.tick(21.0, ["algo-1", "algo-2"])
    assert running.why == "algo-3: connection lost: its agent ended"


def test_a_host_that_has_ended_may_leave(running: Job) -> None:
    running.say("algo-3", Kind.ENDED, 20.0)
    running.lose("algo-3", 20.1)
    running.tick(40.0, ["algo-1", "algo-2"])
    assert running.take() == []


def test_the_job_is_over_when_all_hosts_have_ended(running: Job) -> None:
    running.say("algo-1", Kind.ENDED, 20.0)
    running.say("algo-3", Kind.ENDED, 21.0)
    assert running.take() == []
    running.say("algo-2", Kind.ENDED, 22.0)
    assert running.take() == [Kind.FINISH]
    assert running.state.phase is Phase.FINISHED
    assert running.state.failure is None


def test_the_job_is_not_over_before_the_failure_of_the_last_host_is_decided(running: Job) -> None:
    for host in HOSTS[:2]:
        running.say(host, Kind.ENDED, 20.0)
    running.fail("algo-3", "ValueError", 30.0)
    running.say("algo-3", Kind.ENDED, 30.0)
    assert running.take() == [Kind.GATHER]
    running.tick(31.0)
    assert running.take() == [Kind.STOP, Kind.FINISH]


def test_a_stop_ends_with_the_last_host_even_if_that_is_lost(running: Job) -> None:
    running.fail("algo-2", "ValueError", 10.0)
    running.tick(11.0)
    running.say("algo-1", Kind.ENDED, 12.0)
    running.say("algo-2", Kind.ENDED, 12.0)
    running.take()
    running.tick(41.5, ["algo-1", "algo-2"])
    assert running.take() == [Kind.FINISH]
    assert running.why == "algo-2: ValueError"


def test_a_host_that_starts_after_the_failure_of_another_is_told(job: Job) -> None:
    job.join("algo-1")
    job.fail("algo-1", "the script could not be started", 1.0)
    job.say("algo-1", Kind.ENDED, 1.0)
    job.tick(2.0, ["algo-1"])
    assert job.take() == [Kind.GATHER, Kind.STOP]
    job.join("algo-2", at=4.0)
    assert [(outgoing.host, outgoing.message["kind"]) for outgoing in job.sent] == [("algo-2", Kind.STOP)]
    job.say("algo-2", Kind.ENDED, 4.0)
    job.take()
    job.tick(11.9, ["algo-1", "algo-2"])
    assert job.take() == []
    job.tick(12.0, ["algo-1", "algo-2"])
    assert job.take() == [Kind.FINISH]


def test_a_job_without_progress_prints_stacks_and_then_stops(running: Job) -> None:
    running.tick(119.0, idle=119.0)
    assert running.take() == []
    running.tick(120.0, idle=120.0)
    assert running.take() == [Kind.PRINT_STACKS]
    running.say("algo-1", Kind.STACKS_PRINTED, 121.0)
    # Printing may end processes.
    running.fail("algo-1", "was killed by SIGABRT", 121.0, Cause.ABORT)
    running.say("algo-2", Kind.STACKS_PRINTED, 122.0)
    assert running.take() == []
    running.say("algo-3", Kind.STACKS_PRINTED, 123.0)
    assert running.take() == [Kind.STOP]
    assert running.why == "no progress on any GPU or in any log for 2 min (stall_timeout)"


def test_a_host_that_cannot_print_stacks_is_not_waited_for_long(running: Job) -> None:
    running.tick(120.0, idle=120.0)
    running.say("algo-1", Kind.STACKS_PRINTED, 121.0)
    running.tick(180.0, idle=180.0)
    assert running.take() == [Kind.PRINT_STACKS, Kind.STOP]


def test_progress_of_one_host_is_progress(running: Job) -> None:
    for host in HOSTS[:2]:
        running.say(host, Kind.HEARTBEAT, 150.0, idle=150.0)
    running.say("algo-3", Kind.HEARTBEAT, 150.0, idle=40.0)
    running.sent += running.state.tick(150.0)
    assert running.take() == []


def test_a_host_that_has_ended_makes_no_progress(running: Job) -> None:
    running.say("algo-3", Kind.ENDED, 100.0)
    running.say("algo-3", Kind.HEARTBEAT, 120.0, idle=None)
    running.tick(120.0, ["algo-1", "algo-2"], idle=120.0)
    assert running.take() == [Kind.PRINT_STACKS]


def test_the_wait_for_the_start_is_no_stall(job: Job) -> None:
    job.join(*HOSTS)
    for second in range(0, 500, 5):
        job.tick(float(second), idle=0.0)
    for host in HOSTS:
        job.say(host, Kind.READY, 500.0)
    job.take()
    job.tick(501.0, idle=0.0)
    assert job.take() == []


@pytest.mark.parametrize(
    "received",
    [
        {},
        {"kind": "odd"},
        {"kind": "stop", "failure": {}},
        {"kind": "failed"},
        {"kind": "failed", "failure": {"time": 1}},
        {"kind": "failed", "failure": 3},
    ],
)
def test_a_message_of_no_host_is_refused(running: Job, received: dict[str, Any]) -> None:
    with pytest.raises(ProtocolError):
        running.state.received("algo-2", received, 1.0)


def test_every_deadline_has_its_tick(running: Job) -> None:
    assert running.state.next_tick(0.0) == 5.0
    running.fail("algo-2", "ValueError", 1.0)
    assert running.state.next_tick(1.0) == 2.0
