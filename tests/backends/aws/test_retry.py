"""Which errors are retried, for how long, and how often."""

from __future__ import annotations

import pytest

from gpuproof.backends.aws.retry import backoff_seconds, botocore_retries


@pytest.mark.parametrize("tries", range(12))
def test_the_backoff_grows_with_jitter_up_to_twenty_seconds(tries: int) -> None:
    longest = min(20.0, 2.0**tries)
    assert all(longest / 2 <= backoff_seconds(tries) <= longest for _ in range(100))


def test_botocore_does_not_repeat_what_creates_something() -> None:
    assert botocore_retries(once=True)["total_max_attempts"] == 1
    assert "total_max_attempts" not in botocore_retries(once=False)
