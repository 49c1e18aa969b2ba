"""Keeps a training job's checkpoints on S3 up to date, as SageMaker does."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import Callable

from gpuproof.agent.ec2_host.transfer.aws_cli import AwsCli

_RISK_INTERVAL_S = 15.0
_SYNC = ("s3", "sync", "--only-show-errors")


class Checkpoints:
    """The checkpoints of one host.

    Args:
        folder: `/opt/ml/checkpoints`.
        address: the `s3://` prefix; empty for none.
        interval: seconds between two uploads.
        clock: seconds, of a monotonic clock.
    """

    def __init__(
        self, folder: Path, address: str, interval: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._folder = folder
        self._address = address and f"{address.rstrip('/')}/"
        self._interval = interval
        self._clock = clock
        self._next = clock() + interval
        self._process: subprocess.Popen[bytes] | None = None

    def restore(self, aws: AwsCli) -> None:
        """Download the checkpoints of earlier runs.

        Raises:
            AwsFailed: they cannot be downloaded, or stored.
        """
        if self._address:
            aws.run(*_SYNC, self._address, str(self._folder))

    def poll(self, *, at_once: bool = False) -> None:
        """Start an upload in the background if it is time, and none is running."""
        if not self._address or (self._process is not None and self._process.poll() is None):
            return
        if at_once or self._clock() >= self._next:
            self._next = self._clock() + self._interval
            try:
                self._process = subprocess.Popen(
                    ["aws", *_SYNC, str(self._folder), self._address],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
            except OSError:
                self._process = None  # the last upload will say why

    def hurry(self) -> None:
        """Upload now and more often from now on, since the instance may be taken away."""
        self._interval = min(self._interval, _RISK_INTERVAL_S)
        self._next = self._clock()

    def finish(self, aws: AwsCli) -> None:
        """Upload what has changed since.

        Raises:
            AwsFailed: it cannot be uploaded.
        """
        if self._process is not None:
            # It may be uploading a file that has changed since.
            self._process.kill()
            self._process.wait()
        if self._address and self._folder.is_dir():
            aws.run(*_SYNC, str(self._folder), self._address)
