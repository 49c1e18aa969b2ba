"""Which values of CloudWatch are read: the finest that it still has, and not too many."""

from __future__ import annotations

import pytest

from gpuproof.account.audit.utilization import period_of

NOW = 1_800_000_000.0
HOUR, DAY = 3600.0, 86_400.0


@pytest.mark.parametrize(
    ("age", "length", "period"),
    [
        (HOUR, HOUR, 60),
        (14.9 * DAY, 12 * HOUR, 60),
        (15 * DAY, 12 * HOUR, 300),
        (62.9 * DAY, 12 * HOUR, 300),
        (63 * DAY, 12 * HOUR, 3600),
        (454.9 * DAY, 12 * HOUR, 3600),
        (455 * DAY, 12 * HOUR, None),
        (3 * DAY, 3 * DAY, 300),
        (14 * DAY, 14 * DAY, 3600),
    ],
)
def test_the_period_follows_from_age_and_length(age: float, length: float, period: int | None) -> None:
    start = NOW - age
    assert period_of(start, start + length, NOW) == period
