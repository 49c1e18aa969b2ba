"""Numbers as people read them."""

from __future__ import annotations

import pytest

from gpuproof.backends.record import RunRecord
from gpuproof.terminal.humanize import billing, counted, size, span, usd


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


@pytest.mark.parametrize(
    ("amount", "text"),
    [(None, "-"), (0.0, "$0.00"), (0.00421, "$0.0042"), (0.1, "$0.10"), (1234.5, "$1,234.50")],
)
def test_money_is_told_as_exactly_as_it_matters(amount: float | None, text: str) -> None:
    assert usd(amount) == text


@pytest.mark.parametrize(
    ("billed", "text"),
    [
        ({}, None),
        ({"billed_seconds": 60.0, "cost_usd": 1.0}, "$1.00: 1:00 of ml.g5.xlarge"),
        ({"billed_seconds": 60.0, "cost_usd": 4.0, "instance_count": 4}, "$4.00: 1:00 of 4 x ml.g5.xlarge"),
        ({"billed_seconds": 60.0}, "1:00 of ml.g5.xlarge, at a price that is not known"),
        (
            {"billed_seconds": 60.0, "cost_usd": 1.0, "spot_saving": 0.7},
            "$1.00: 1:00 of ml.g5.xlarge; spot saved 70 %",
        ),
    ],
)
def test_a_bill_says_what_it_is_for(billed: dict[str, float], text: str | None) -> None:
    run = {
        "id": "a",
        "job_name": "a",
        "kind": "training",
        "place": "sagemaker",
        "status": "Completed",
        "created": 0,
    }
    assert billing(RunRecord.of({**run, "instance_type": "ml.g5.xlarge", **billed})) == text
