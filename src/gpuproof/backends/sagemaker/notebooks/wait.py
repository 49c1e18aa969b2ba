"""Waits until a notebook instance has left a state, with a time limit."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import Any

from gpuproof.backends.aws import Aws
from gpuproof.backends.aws.retry import poll_pauses
from gpuproof.backends.progress import SubmitProgress
from gpuproof.backends.sagemaker.notebooks.errors import NotebookTimeout
from gpuproof.util.humanize import format_clock, format_duration

TIMEOUT_S = 20 * 60.0
"""Notebook instances usually start within 2 to 6 minutes; a GPU type without capacity stays Pending for half an hour.

Source: https://github.com/aws/amazon-sagemaker-examples/issues/207
"""


class NotebookWaiter:
    """Waits for notebook instances.

    Args:
        progress: told the state and the time.
        timeout: seconds until it gives up.
        sleep: waits for a number of seconds.
        clock: monotonic clock, in seconds.
    """

    def __init__(
        self,
        aws: Aws,
        progress: SubmitProgress,
        timeout: float = TIMEOUT_S,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._aws = aws
        self._progress = progress
        self._timeout = timeout
        self.sleep = sleep
        self._clock = clock

    def while_in(self, name: str, states: Collection[str]) -> dict[str, Any] | None:
        """Wait while a notebook instance is in one of these states; its description then, None if it does not exist.

        Raises:
            NotebookTimeout: it still is.
        """
        start, pauses = self._clock(), poll_pauses()
        while True:
            description = self._aws.describe_notebook(name)
            if description is None:
                return None
            status = description["NotebookInstanceStatus"]
            if status not in states:
                return description
            passed = self._clock() - start
            if passed >= self._timeout:
                raise NotebookTimeout(
                    f"The notebook instance {name} is still {status} after {format_duration(self._timeout)}.",
                    status=status,
                )
            self._progress.step(f"{name} is {status} · {format_clock(passed)}")
            self.sleep(next(pauses))
