"""Several transfers at once: all are done, the first error ends them, an interrupt waits for none."""

from __future__ import annotations

import _thread
import threading

import pytest

from gpuproof.backends.aws.services.s3_transfer import ByteCounter, TransferCancelled, run_in_threads


def test_every_task_is_done_once_by_several_threads() -> None:
    done: list[int] = []
    together = threading.Barrier(4)

    def work(task: int) -> None:
        if task < 4:
            together.wait(120)
        done.append(task)

    run_in_threads(range(100), work, ByteCounter(0, None), 4)
    assert sorted(done) == list(range(100))


def test_nothing_to_do_is_done_at_once() -> None:
    run_in_threads([], pytest.fail, ByteCounter(0, None), 4)


@pytest.mark.slow
def test_the_first_error_ends_it_though_another_hangs() -> None:
    release = threading.Event()
    tally = ByteCounter(0, None)

    def work(task: int) -> None:
        if task == 0:
            raise ZeroDivisionError
        release.wait(20)

    try:
        with pytest.raises(ZeroDivisionError):
            run_in_threads(range(10), work, tally, 2)
    finally:
        release.set()
    with pytest.raises(TransferCancelled):
        tally.add(1)


@pytest.mark.slow
def test_an_interrupt_does_not_wait_for_a_connection_that_hangs() -> None:
    release = threading.Event()
    tally = ByteCounter(0, None)

    def work(task: int) -> None:
        if task == 0:
            _thread.interrupt_main()
        release.wait(600)

    try:
        with pytest.raises(KeyboardInterrupt):
            run_in_threads(range(10), work, tally, 2)
        assert not release.is_set()
    finally:
        release.set()
    with pytest.raises(TransferCancelled):
        tally.add(1)


def test_transfers_in_progress_finish_before_an_error_is_raised() -> None:
    failed = threading.Event()
    under_way: set[int] = set()

    def work(task: int) -> None:
        if task == 0:
            failed.set()
            raise ZeroDivisionError
        under_way.add(task)
        assert failed.wait(120)
        under_way.remove(task)

    with pytest.raises(ZeroDivisionError):
        run_in_threads(range(10), work, ByteCounter(0, None), 2)
    assert under_way == set()


def test_progress_is_reported_as_a_running_total_and_can_decrease() -> None:
    updates: list[tuple[int, int]] = []
    tally = ByteCounter(10, lambda done, total: updates.append((done, total)))
    for count in (4, -4, 0, 10):
        tally.add(count)
    assert updates == [(4, 10), (0, 10), (10, 10)]
    tally.cancel()
    with pytest.raises(TransferCancelled):
        tally.add(1)
    assert len(updates) == 3
