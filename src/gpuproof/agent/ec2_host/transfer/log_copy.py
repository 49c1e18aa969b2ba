"""Uploads the output to S3 while CloudWatch Logs does not take it, because the role may not write there for example."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import Callable

from gpuproof.agent.ec2_host.transfer.aws_cli import AwsCli

_INTERVAL_S = 15.0
_COPY = ("s3", "cp", "--only-show-errors")


class LogCopy:
    """The whole output so far, as one object.

    Args:
        address: the `s3://` address of the object.
        interval: seconds between two uploads.
        clock: seconds, of a monotonic clock.
    """

    def __init__(
        self,
        file: Path,
        address: str,
        interval: float = _INTERVAL_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._file = file
        self._address = address
        self._interval = interval
        self._clock = clock
        self._next = clock()
        self._uploaded = 0
        self._process: subprocess.Popen[bytes] | None = None

    def poll(self) -> None:
        """Start an upload in the background if it is time, there is more output, and none is running."""
        if self._clock() < self._next or (self._process is not None and self._process.poll() is None):
            return
        self._next = self._clock() + self._interval
        size = self._size()
        if size == self._uploaded:
            return
        self._uploaded = size
        try:
            self._process = subprocess.Popen(
                ["aws", *_COPY, str(self._file), self._address],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        except OSError:
            self._process = None  # the last upload will say why

    def finish(self, aws: AwsCli) -> None:
        """Upload all of it.

        Raises:
            AwsFailed: it cannot be uploaded.
        """
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        if self._size():
            aws.run(*_COPY, str(self._file), self._address)

    def _size(self) -> int:
        try:
            return self._file.stat().st_size
        except OSError:
            return 0
