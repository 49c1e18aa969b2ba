"""Uploads how to reach a machine's Jupyter server, for the client."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import Callable

from gpuproof.agent.machine.files import MachineFiles

_RETRY_S = 15.0


class JupyterAccess:
    """The file of a machine's program with port and token, which only those who may read the run's folder see.

    Args:
        ml: `/opt/ml`.
        address: the `s3://` address of the copy.
        clock: seconds, of a monotonic clock.
    """

    def __init__(self, ml: Path, address: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._file = MachineFiles(ml).server
        self._address = address
        self._clock = clock
        self._next = 0.0
        self._process: subprocess.Popen[bytes] | None = None
        self._is_done = False

    def poll(self) -> None:
        """Start to upload the file in the background as soon as it exists; repeat that if it fails."""
        if self._is_done:
            return
        if self._process is not None:
            code = self._process.poll()
            self._is_done = code == 0
            if code is None or code == 0:
                return
            self._process = None
        if self._clock() < self._next or not self._file.is_file():
            return
        self._next = self._clock() + _RETRY_S
        try:
            self._process = subprocess.Popen(
                ["aws", "s3", "cp", "--only-show-errors", str(self._file), self._address],
                stdin=subprocess.DEVNULL,
            )
        except OSError as error:
            print(f"gpuproof: {self._file.name} was not uploaded: {error}", flush=True)
