"""Runs that several readers watch."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from gpuproof.app.dashboard import WatchedRun, WatchedRuns
from gpuproof.backends.base import Event, Output
from gpuproof.errors import GPUproofError
from support.fake_backend import FakeRun

_LIMIT_S = 300.0


class StepRun(FakeRun):
    """A run whose output comes when the test says so."""

    def __init__(self) -> None:
        super().__init__("train-1", None)
        self.go = threading.Semaphore(0)
        self.followers = 0
        self.error: Exception | None = None

    def follow(self, **_: Any) -> Iterator[Event]:
        self.followers += 1
        for number in range(1000):
            self.go.acquire()
            if self.error is not None:
                raise self.error
            if self.status != "InProgress":
                yield self.record
                return
            yield Output(f"line {number}\n".encode())


def test_readers_share_one_thread_and_see_the_end() -> None:
    run, runs = StepRun(), WatchedRuns()
    first = runs.of("fake", "train-1", lambda: run)
    assert runs.of("fake", "train-1", StepRun) is first
    run.go.release()
    version, snapshot = first.newer(0, _LIMIT_S)
    assert (version, snapshot.log) == (1, ("line 0",))
    run.go.release()
    assert first.newer(version, _LIMIT_S)[1].log == ("line 0", "line 1")
    run.status = "Stopped"
    run.go.release()
    version = 2
    while (found := first.newer(version, _LIMIT_S))[1].outcome is None:
        version = found[0]
    assert run.followers == 1
    assert found[1].status == "Stopped"


def test_without_news_the_last_snapshot_is_returned_after_the_timeout() -> None:
    watched = WatchedRun(StepRun())
    assert watched.newer(0, 0.01) == (0, None)


@pytest.mark.parametrize("error", [GPUproofError("AWS refused."), KeyError("bug")])
def test_an_error_ends_all_readers_and_a_later_one_begins_anew(error: Exception, capfd) -> None:
    run, runs = StepRun(), WatchedRuns()
    watched = runs.of("fake", "train-1", lambda: run)
    run.error = error
    run.go.release()
    with pytest.raises(GPUproofError, match=r"AWS refused|internal error"):
        watched.newer(0, _LIMIT_S)
    assert ("KeyError" in capfd.readouterr().err) is isinstance(error, KeyError)
    assert watched.is_done
    assert runs.of("fake", "train-1", StepRun) is not watched


def test_a_run_that_nothing_reads_is_no_longer_followed() -> None:
    run = StepRun()
    watched = WatchedRun(run, unread_s=-1)
    run.go.release()
    while not watched.is_done:
        watched.newer(1, _LIMIT_S)
    assert watched.newer(1, 0)[1].outcome is None
