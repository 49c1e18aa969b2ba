"""Uploads the newest sample of the GPUs while the job runs, for `gpuproof top`."""

from __future__ import annotations

import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Callable

from gpuproof.agent.paths import live_file

LIVE = "live.json"
"""A host's newest sample in the run's folder: the keys of a live sample, and `time` in seconds since the epoch."""
EVERY_S = 30.0
"""The AWS CLI takes most of a second of a core each time."""


class LiveSamples:
    """The newest sample, which the agent writes because its file exists.

    Args:
        ml: `/opt/ml`.
        address: the `s3://` address of the copy.
        clock: seconds, of a monotonic clock.
    """

    def __init__(self, ml: Path, address: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._file = live_file(ml)
        self._address = address
        self._clock = clock
        self._next = 0.0
        self._process: subprocess.Popen[bytes] | None = None

    def begin(self) -> None:
        """Let the agent write samples."""
        with suppress(OSError):  # the disk is full: there are no samples
            self._file.parent.mkdir(parents=True, exist_ok=True)
            self._file.touch()

    def poll(self) -> None:
        """Start to upload the newest sample in the background, where it is time."""
        if self._process is not None and self._process.poll() is None:
            return
        self._process = None
        if self._clock() < self._next or not self._has_sample():
            return
        self._next = self._clock() + EVERY_S
        with suppress(OSError):
            self._process = subprocess.Popen(
                ["aws", "s3", "cp", "--only-show-errors", str(self._file), self._address],
                stdin=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )

    def finish(self) -> None:
        """End an upload that is under way."""
        if self._process is not None:
            with suppress(OSError):
                self._process.kill()
            self._process.wait()

    def _has_sample(self) -> bool:
        try:
            return self._file.stat().st_size > 0
        except OSError:
            return False
