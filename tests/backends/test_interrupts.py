from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from gpuproof.backends.interrupts import DeferredInterrupt, Terminated, sigterm_interrupts


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
        assert process.wait(60) == -signal.SIGINT
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
