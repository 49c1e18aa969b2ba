"""Requests about instances that were launched a moment ago, which EC2 may not know everywhere yet."""

from __future__ import annotations

from collections.abc import Callable

from gpuproof.backends.aws import AwsRefused

LOOKUP_DELAYS = (0.0, 2.0, 5.0)
"""Seconds before each attempt: a new instance may become visible some seconds later.

Source: https://docs.aws.amazon.com/ec2/latest/devguide/eventual-consistency.html
"""


def when_visible(request: Callable[[], None], sleep: Callable[[float], None]) -> None:
    """Make a request, and repeat it while EC2 does not know an instance.

    Args:
        sleep: waits for a number of seconds.

    Raises:
        GPUproofError: the request failed.
    """
    for delay in LOOKUP_DELAYS:
        if delay:
            sleep(delay)
        try:
            request()
        except AwsRefused as refused:
            if refused.code != "InvalidInstanceID.NotFound" or delay == LOOKUP_DELAYS[-1]:
                raise
        else:
            return
