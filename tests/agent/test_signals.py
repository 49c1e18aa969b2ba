from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterator

import pytest

from gpuproof.agent.signals import StopRequest, StopRequested, StopSignals
from gpuproof.agent.supervisor import Deadline, Deadlines


@pytest.fixture
def signals() -> Iterator[StopSignals]:
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGCHLD)
    before = {number: signal.getsignal(number) for number in numbers}
    stop = StopSignals()
    stop.install()
    yield stop
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (signal.SIGTERM, StopRequest.GRACEFUL),
        (signal.SIGINT, StopRequest.GRACEFUL),
        (signal.SIGQUIT, StopRequest.AT_ONCE),
    ],
)
def test_a_signal_becomes_a_request_that_can_be_waited_for(
    signals: StopSignals, number: signal.Signals, expected: StopRequest
) -> None:
    assert signals.take() is None
    os.kill(os.getpid(), number)
    assert select.select([signals], [], [], 5)[0] == [signals]
    assert signals.take() == expected
    assert signals.take() is None


def test_a_closed_terminal_gets_no_prompt(signals: StopSignals) -> None:
    os.kill(os.getpid(), signal.SIGHUP)
    assert signals.take() is None


def test_work_that_can_be_dropped_is_interrupted(signals: StopSignals) -> None:
    with pytest.raises(StopRequested), signals.interrupting():
        os.kill(os.getpid(), signal.SIGTERM)
        select.select([], [], [], 5)
    assert signals.take() == StopRequest.GRACEFUL


def test_a_request_from_before_interrupts_too(signals: StopSignals) -> None:
    os.kill(os.getpid(), signal.SIGTERM)
    with pytest.raises(StopRequested), signals.interrupting():
        pytest.fail("not reached")


def test_afterwards_a_request_interrupts_nothing(signals: StopSignals) -> None:
    with signals.interrupting():
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    assert signals.take() == StopRequest.GRACEFUL


def test_the_next_deadline_is_waited_for() -> None:
    deadlines = Deadlines()
    assert deadlines.wait(0.0) is None
    deadlines.set(Deadline.STOP_GRACE, 20.0)
    deadlines.set(Deadline.GPU_GRACE, 10.0)
    assert deadlines.wait(4.0) == 6.0
    assert deadlines.wait(15.0) == 0.0


def test_a_deadline_is_due_once() -> None:
    deadlines = Deadlines()
    deadlines.set(Deadline.STOP_GRACE, 20.0)
    deadlines.set(Deadline.GPU_GRACE, 10.0)
    assert deadlines.due(25.0) == [Deadline.GPU_GRACE, Deadline.STOP_GRACE]
    assert deadlines.due(25.0) == []


def test_asking_again_never_puts_a_deadline_off() -> None:
    deadlines = Deadlines()
    deadlines.set(Deadline.STOP_GRACE, 10.0)
    deadlines.set(Deadline.STOP_GRACE, 30.0)
    assert deadlines.due(10.0) == [Deadline.STOP_GRACE]
