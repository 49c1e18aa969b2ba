"""Durations on the command lines of host programs."""

from __future__ import annotations

import pytest

from gpuproof.units import Duration
from gpuproof.util.durations import parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        *(
            ("60s", 60),
            ("5m", 300),
            ("1h30m", 5400),
            ("2d", 172_800),
            ("90", 90),
            ("0.5", 0.5),
            ("1.5h", 5400),
        ),
        *((" 45 sec ", 45), ("5min", 300), ("2 hours 1 minute", 7260), ("1H", 3600)),
    ],
)
def test_a_duration_is_read(text: str, seconds: float):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["60s", "5m", "1h30m", "2d", "90", "5min", "1.5h"])
def test_it_means_the_same_to_client_and_host(text: str):
    assert parse_duration(text) == Duration.parse(text).seconds


@pytest.mark.parametrize("text", ["", "s", "5 parsecs", "-5s", "5m5m", "1h x", "5mm", "nan"])
def test_other_texts_are_refused_with_an_example(text: str):
    with pytest.raises(ValueError, match="write, for example, 45s"):
        parse_duration(text)
