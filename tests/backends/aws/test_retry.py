"""Which errors are retried, for how long, and how often."""

from __future__ import annotations

from itertools import islice

import pytest

from gpuproof.backends.aws.retry import backoff_seconds, botocore_retries, poll_pauses


@pytest.mark.parametrize("tries", range(12))
def test_the_backoff_grows_with_jitter_up_to_twenty_seconds(tries: int) -> None:
    longest = min(20.0, 2.0**tries)
    assert all(longest / 2 <= backoff_seconds(tries) <= longest for _ in range(100))


def test_botocore_does_not_repeat_what_creates_something() -> None:
    assert botocore_retries(once=True)["total_max_attempts"] == 1
    assert "total_max_attempts" not in botocore_retries(once=False)


def test_a_state_is_requested_soon_at_first_and_then_every_ten_seconds() -> None:
    pauses = list(islice(poll_pauses(), 20))
    assert pauses[0] == 0.5
    assert pauses == sorted(pauses)
    assert pauses[-1] == 10.0


def test_waiting_for_a_state_ends_with_its_limit() -> None:
    pauses = list(poll_pauses(300.0))
    assert sum(pauses[:-1]) < 300.0 <= sum(pauses)
