"""Numbers as people read them."""

from __future__ import annotations

import pytest

from tarmac.cli.words import counted, size, span


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1, "1 B"),
        (1023, "1023 B"),
        (1023.9, "1.0 KiB"),
        (1024, "1.0 KiB"),
        (12_595, "12.3 KiB"),
        (2**20 - 1, "1.0 MiB"),
        (2**20, "1.0 MiB"),
        (24 * 2**30, "24.0 GiB"),
        (2**40 - 1, "1.0 TiB"),
        (5000 * 2**40, "5000.0 TiB"),
    ],
)
def test_bytes_in_short(count: float, text: str) -> None:
    assert size(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"),
        (0, "0.0 s"),
        (4.24, "4.2 s"),
        (9.94, "9.9 s"),
        (9.96, "0:10"),
        (59.6, "1:00"),
        (62, "1:02"),
        (3599.7, "1:00:00"),
        (11_045, "3:04:05"),
        (360_000, "100:00:00"),
    ],
)
def test_time_in_short(seconds: float | None, text: str) -> None:
    assert span(seconds) == text


@pytest.mark.parametrize(("number", "text"), [(0, "0 files"), (1, "1 file"), (2, "2 files")])
def test_things_are_counted(number: int, text: str) -> None:
    assert counted(number, "file") == text
