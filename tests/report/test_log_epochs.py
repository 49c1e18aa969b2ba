"""Epochs by a log."""

from __future__ import annotations

import pytest

from gpuproof.report.log_epochs import EpochFinder, epoch_times


def positions(log: bytes, size: int = 1 << 20) -> dict[int, int]:
    finder = EpochFinder()
    for start in range(0, len(log), size):
        finder.add(log[start : start + size])
    return finder.positions


@pytest.mark.parametrize(
    "line",
    [
        b"Epoch 3/10",
        b"Epoch 3:  40%|####",
        b"epoch: 3 loss 0.1",
        b"Epoch [3/10], Step [1/200]",
        b"[rank0] epoch=3",
        b"2026-11-29 12:00:00 INFO epoch 3 of 10",
    ],
)
def test_an_epoch_is_recognized_in_the_usual_forms(line: bytes) -> None:
    assert positions(b"start\n" + line + b"\n") == {3: 6}


@pytest.mark.parametrize("line", [b"epochs=3", b"save every 3 epochs", b"an epochal 3", b"epoch time 3 s"])
def test_other_lines_are_no_epochs(line: bytes) -> None:
    assert positions(line + b"\n") == {}


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_the_first_line_of_an_epoch_counts_however_the_log_arrives(size: int) -> None:
    log = b"x\nEpoch 1/2\rEpoch 1/2 50%\nloss 1\nEpoch 2/2\nEpoch 1/2 again\n"
    assert positions(log, size) == {1: 2, 2: log.index(b"Epoch 2/2")}


def test_the_time_of_an_epoch_is_that_of_its_position() -> None:
    notes = [(100.0, 0), (110.0, 50), (130.0, 200)]
    assert epoch_times({2: 199, 3: 200, 1: 10}, notes, 95.0) == [
        (5.0, "epoch 1"),
        (15.0, "epoch 2"),
        (35.0, "epoch 3"),
    ]
    assert epoch_times({1: 10}, [], 95.0) == []
