from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from gpuproof.backends.interrupts import (
    DeferredInterrupt,
    Terminated,
    redelivered_interrupts,
    sigterm_interrupts,
)


@pytest.fixture(autouse=True)
def _default_sigterm() -> Iterator[None]:
    """SIGTERM as in a new process: tests of the runtime library leave its handler in the process of the tests."""
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGTERM, before)


def test_ctrl_c_waits_until_it_is_released() -> None:
    reached = False
    with pytest.raises(KeyboardInterrupt), DeferredInterrupt() as interrupt:
        os.kill(os.getpid(), signal.SIGINT)
        reached = True
        interrupt.release()
        pytest.fail("not reached")
    assert reached


def test_it_comes_through_at_the_end_at_the_latest() -> None:
    with pytest.raises(KeyboardInterrupt), DeferredInterrupt():
        os.kill(os.getpid(), signal.SIGINT)


def test_without_one_nothing_is_raised_and_it_works_as_before() -> None:
    with DeferredInterrupt() as interrupt:
        interrupt.release()
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)


def test_a_program_started_meanwhile_can_be_interrupted() -> None:
    with DeferredInterrupt():
        process = subprocess.Popen(
            [sys.executable, "-c", "print('ready', flush=True); import time; time.sleep(600)"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(300) == -signal.SIGINT
        process.stdout.close()


def test_sigterm_is_delayed_too_and_told_apart() -> None:
    with pytest.raises(Terminated), DeferredInterrupt():
        os.kill(os.getpid(), signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_sigterm_interrupts_like_ctrl_c() -> None:
    with pytest.raises(KeyboardInterrupt), sigterm_interrupts():
        os.kill(os.getpid(), signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_program_that_handles_sigterm_keeps_its_handler() -> None:
    received: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: received.append(number))
    try:
        with sigterm_interrupts():
            os.kill(os.getpid(), signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert received == [signal.SIGTERM]


def test_in_another_thread_nothing_is_changed() -> None:
    def body() -> None:
        with sigterm_interrupts(), DeferredInterrupt():
            handlers.append(signal.getsignal(signal.SIGTERM))

    handlers: list[object] = []
    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    assert handlers == [signal.SIG_DFL]


class SignalInFinalizer:
    """Sends a signal to this process while it is finalized: Python discards what the handler raises there."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __del__(self) -> None:
        os.kill(os.getpid(), self.number)


@pytest.mark.parametrize(
    ("number", "error"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, Terminated)]
)
def test_an_interrupt_that_python_discards_comes_again(number: int, error: type[BaseException]) -> None:
    with sigterm_interrupts(), pytest.raises(error), redelivered_interrupts():
        SignalInFinalizer(number)
        threading.Event().wait(300)
        pytest.fail("not reached")


def test_other_discarded_errors_are_reported_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[type[BaseException]] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda discarded: reported.append(discarded.exc_type))
    before = sys.unraisablehook

    class Fails:
        def __del__(self) -> None:
            raise ValueError

    with redelivered_interrupts():
        Fails()
    assert (reported, sys.unraisablehook) == ([ValueError], before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_while_the_handlers_are_exchanged_leaves_none_of_them_behind(
    monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    """Such an interrupt raises at once, or is remembered; the next one raises in any case."""
    exchange = signal.signal
    for moment in range(4):
        count = iter(range(4))

        def interrupted(which: int, handler: Any, moment: int = moment, count: Iterator[int] = count) -> Any:
            replaced = exchange(which, handler)
            if next(count, None) == moment:
                os.kill(os.getpid(), number)
            return replaced

        with sigterm_interrupts():
            monkeypatch.setattr(signal, "signal", interrupted)
            with pytest.raises(KeyboardInterrupt), DeferredInterrupt():
                pass
            monkeypatch.setattr(signal, "signal", exchange)
            for again in (signal.SIGINT, signal.SIGTERM):
                with pytest.raises(KeyboardInterrupt):
                    os.kill(os.getpid(), again)
