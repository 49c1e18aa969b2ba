"""When AWS requests are repeated, S3 included: after which errors and for how long, and while waiting for a state.

botocore's standard retry mode comes first (three attempts, or `AWS_MAX_ATTEMPTS`). After these, requests are repeated
as this module says, except those that create something: botocore would repeat them after a lost connection, even if
the first one had arrived, so they are sent once.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from typing import Any

from gpuproof.backends.aws.errors import AwsRefused, AwsUnreachable

THROTTLED_SECONDS = 120.0
"""How long throttled requests are retried, in addition to botocore's own attempts."""

FAULT_SECONDS = 5.0
"""How long requests are retried after internal errors of AWS, in addition to botocore's own attempts."""

UNREACHABLE_SECONDS = 30.0
"""How long requests are retried after a lost connection to a service that has answered before."""

_LONGEST_WAIT = 20.0
_FIRST_POLL, _LONGEST_POLL = 0.5, 10.0


def botocore_retries(*, once: bool) -> dict[str, Any]:
    """The `retries` setting of a botocore client.

    Args:
        once: the client's requests create something, so botocore must not repeat them.
    """
    return {"mode": "standard", "total_max_attempts": 1} if once else {"mode": "standard"}


def retry_seconds(error: AwsRefused | AwsUnreachable, *, once: bool, answered: bool) -> float:
    """Total seconds to wait for retries after an error; 0 if it is final.

    Args:
        answered: the service has answered an earlier request.
    """
    if isinstance(error, AwsRefused):
        if error.is_throttle:
            return THROTTLED_SECONDS
        return FAULT_SECONDS if error.is_fault and not once else 0.0
    return UNREACHABLE_SECONDS if answered and not error.maybe_done else 0.0


def backoff_seconds(tries: int) -> float:
    """Seconds before the next attempt: exponential, with jitter, at most 20 s."""
    longest = min(_LONGEST_WAIT, 2.0**tries)
    return longest * (0.5 + random.random() / 2)


def poll_pauses(limit: float = math.inf) -> Iterator[float]:
    """Seconds between requests that wait for a state, 0.5 s at first and growing to 10 s, until their sum is `limit`."""
    passed, pause = 0.0, _FIRST_POLL
    while passed < limit:
        yield pause
        passed += pause
        pause = min(_LONGEST_POLL, 1.3 * pause)
