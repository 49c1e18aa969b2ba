from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from gpuproof.cli.sigint import DeferredInterrupt


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
