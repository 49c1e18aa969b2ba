"""What a member does when the coordinator speaks, is silent, or is gone."""

from __future__ import annotations

import pytest

from gpuproof.agent.cluster.link import Event
from gpuproof.agent.cluster.member_state import MemberState
from gpuproof.agent.cluster.messages import Kind, ProtocolError, message
from gpuproof.agent.cluster.timing import Timing
from gpuproof.agent.ranks.host_failure import Cause, Failure


@pytest.fixture
def state() -> MemberState:
    state = MemberState("algo-1", Timing(heartbeat=5, lost=30), 0.0, 1000.0)
    state.connected(0.0)
    return state


def reason(events: list[Event]) -> str:
    assert [event.kind for event in events] == [Kind.STOP, Kind.FINISH]
    assert events[0].failure is not None
    return events[0].failure.text


def test_messages_become_events(state: MemberState) -> None:
    assert state.received(message(Kind.START), 1.0) == [Event(Kind.START)]
    assert state.received(message(Kind.HEARTBEAT), 2.0) == []
    failure = Failure(1.0, "ValueError", host="algo-2")
    assert state.received(message(Kind.STOP, failure=failure.to_json()), 3.0) == [Event(Kind.STOP, failure)]
    assert not state.finished
    assert state.received(message(Kind.FINISH), 4.0) == [Event(Kind.FINISH)]
    assert state.finished


def test_a_silent_coordinator_is_lost(state: MemberState) -> None:
    assert state.tick(29.0) == (True, [])
    due, events = state.tick(30.0)
    assert not due
    assert reason(events) == "algo-1: connection lost: it sent nothing for 30 s"


def test_heartbeats_keep_the_contact(state: MemberState) -> None:
    state.received(message(Kind.HEARTBEAT), 29.0)
    assert state.tick(31.0) == (True, [])
    assert state.next_tick() == 36.0


def test_a_coordinator_that_leaves_after_the_end_is_not_lost(state: MemberState) -> None:
    state.received(message(Kind.FINISH), 1.0)
    assert state.lost("its agent ended", 2.0) == []


def test_a_coordinator_that_is_lost_after_a_stop_changes_no_reason(state: MemberState) -> None:
    state.received(message(Kind.STOP, failure=Failure(1.0, "first").to_json()), 1.0)
    assert state.lost("its agent ended", 2.0) == [Event(Kind.FINISH)]


def test_an_own_error_precedes_the_loss_of_the_coordinator(state: MemberState) -> None:
    state.failed(Failure(990.0, "ConnectionResetError", Cause.PEER, "algo-2"))
    state.failed(Failure(999.0, "ValueError", host="algo-2"))
    assert reason(state.lost("its agent ended", 2.0)) == "algo-2: ValueError"


def test_a_lost_connection_does_not(state: MemberState) -> None:
    state.failed(Failure(999.0, "ConnectionResetError", Cause.PEER, "algo-2"))
    assert reason(state.lost("its agent ended", 2.0)) == "algo-1: connection lost: its agent ended"


def test_a_coordinator_that_never_was_there_is_named(state: MemberState) -> None:
    assert "algo-1 could not be reached within 600 s: refused" in reason(state.unreachable("refused", 600.0))


@pytest.mark.parametrize("received", [{}, {"kind": "odd"}, {"kind": "ready"}, {"kind": "stop"}])
def test_other_messages_are_refused(state: MemberState, received: dict[str, object]) -> None:
    with pytest.raises(ProtocolError):
        state.received(received, 1.0)
