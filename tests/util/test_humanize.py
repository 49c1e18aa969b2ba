"""Numbers, sizes, durations and lists for people."""

from __future__ import annotations

import pytest

from gpuproof.util.humanize import (
    format_bytes,
    format_clock,
    format_duration,
    format_energy,
    format_seconds,
    format_seconds_range,
    format_share,
    format_usd,
    gpu_list,
    join_words,
    pluralize,
)


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
    assert format_bytes(count) == text


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
    assert format_clock(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.000_42, "0.42 ms"),
        (0.001_34, "1.34 ms"),
        (0.388, "388 ms"),
        (0.9994, "999 ms"),
        (0.9996, "1 s"),
        (1.29, "1.29 s"),
        (99.94, "99.9 s"),
        (100, "100 s"),
        (200, "3 min 20 s"),
    ],
)
def test_times_have_three_digits_and_no_exponent(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text


def test_the_limits_of_a_time_are_in_its_unit() -> None:
    assert format_seconds_range(0.0421, 0.0702, 0.112) == "70.2 ms (42.1-112)"
    assert format_seconds_range(0.7, 0.98, 1.234) == "980 ms (700-1234)"
    assert format_seconds_range(0.98, 1.29, 1.61) == "1.29 s (0.98-1.61)"
    assert format_seconds_range(90, 130, 200) == "2 min 10 s (90 s-3 min 20 s)"


@pytest.mark.parametrize(("number", "text"), [(0, "0 files"), (1, "1 file"), (2, "2 files")])
def test_things_are_counted(number: int, text: str) -> None:
    assert pluralize(number, "file") == text


@pytest.mark.parametrize(
    ("amount", "text"),
    [(None, "-"), (0.0, "$0.00"), (0.00421, "$0.0042"), (0.1, "$0.10"), (1234.5, "$1,234.50")],
)
def test_money_is_rounded_to_relevant_digits(amount: float | None, text: str) -> None:
    assert format_usd(amount) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0.0 s"),
        (0.34, "0.3 s"),
        (9.96, "10 s"),
        (119, "119 s"),
        (120, "2 min"),
        (200, "3 min 20 s"),
        (7199, "119 min 59 s"),
        (7200, "2 h"),
        (7500, "2 h 5 min"),
    ],
)
def test_a_duration_in_a_sentence(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@pytest.mark.parametrize(("share", "text"), [(0.0, "0%"), (0.001, "under 1%"), (0.006, "1%"), (0.97, "97%")])
def test_a_share_above_zero_is_never_zero_percent(share: float, text: str) -> None:
    assert format_share(share) == text


@pytest.mark.parametrize(
    ("words", "text"), [(["a"], "a"), (["a", "b"], "a or b"), (["a", "b", "c"], "a, b or c")]
)
def test_words_are_joined(words: list[str], text: str) -> None:
    assert join_words(words, "or") == text


@pytest.mark.parametrize(
    ("indexes", "text"), [([0], "GPU 0"), ([0, 1], "GPUs 0 and 1"), ([0, 1, 3], "GPUs 0, 1 and 3")]
)
def test_gpus_are_named(indexes: list[int], text: str) -> None:
    assert gpu_list(indexes) == text


@pytest.mark.parametrize(
    ("joules", "text"),
    [
        (0, "0 Wh"),
        (1512, "0.42 Wh"),
        (44_280, "12.3 Wh"),
        (3_598_200, "1 kWh"),
        (6_588_000, "1.83 kWh"),
        (4.4424e9, "1,234 kWh"),
    ],
)
def test_energies(joules: float, text: str):
    assert format_energy(joules) == text
