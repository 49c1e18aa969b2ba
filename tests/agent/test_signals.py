from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterator

import pytest

from gpuproof.agent.deadlines import Deadlines
from gpuproof.agent.signals import AT_ONCE, GRACEFUL, StopRequested, StopSignals


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
    ("number", "word"),
    [(signal.SIGTERM, GRACEFUL), (signal.SIGINT, GRACEFUL), (signal.SIGQUIT, AT_ONCE)],
)
def test_a_signal_becomes_a_request_that_can_be_waited_for(
    signals: StopSignals, number: signal.Signals, word: str
) -> None:
    assert signals.taken() is None
    os.kill(os.getpid(), number)
    assert select.select([signals], [], [], 5)[0] == [signals]
    assert signals.taken() == word
    assert signals.taken() is None


def test_a_closed_terminal_asks_nothing(signals: StopSignals) -> None:
    os.kill(os.getpid(), signal.SIGHUP)
    assert signals.taken() is None


def test_work_that_can_be_dropped_is_interrupted(signals: StopSignals) -> None:
    with pytest.raises(StopRequested), signals.interrupting():
        os.kill(os.getpid(), signal.SIGTERM)
        select.select([], [], [], 5)
    assert signals.taken() == GRACEFUL


def test_a_request_from_before_interrupts_too(signals: StopSignals) -> None:
    os.kill(os.getpid(), signal.SIGTERM)
    with pytest.raises(StopRequested), signals.interrupting():
        pytest.fail("not reached")


def test_afterwards_a_request_interrupts_nothing(signals: StopSignals) -> None:
    with signals.interrupting():
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    assert signals.taken() == GRACEFUL


def test_the_next_deadline_is_waited_for() -> None:
    deadlines = Deadlines()
    assert deadlines.wait(0.0) is None
    deadlines.set("b", 20.0)
    deadlines.set("a", 10.0)
    assert deadlines.wait(4.0) == 6.0
    assert deadlines.wait(15.0) == 0.0


def test_a_deadline_is_due_once() -> None:
    deadlines = Deadlines()
    deadlines.set("b", 20.0)
    deadlines.set("a", 10.0)
    assert deadlines.due(25.0) == ["a", "b"]
    assert deadlines.due(25.0) == []


def test_asking_again_never_puts_a_deadline_off() -> None:
    deadlines = Deadlines()
    deadlines.set("stop", 10.0)
    deadlines.set("stop", 30.0)
    assert deadlines.due(10.0) == ["stop"]
