"""`run.json`: the state of a run. Every change replaces the file atomically, even on a full disk."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpuproof.util.atomic import write_json

VERSION = 1

IN_PROGRESS = "InProgress"
STOPPING = "Stopping"
COMPLETED = "Completed"
FAILED = "Failed"
STOPPED = "Stopped"
"""The values of SageMaker's `TrainingJobStatus`; see
https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DescribeTrainingJob.html"""

ENDED = frozenset({COMPLETED, FAILED, STOPPED})

_RESERVE_BYTES = 256 * 1024
_PIECE_BYTES = 16 * 1024


class RunState:
    """The state of one run.

    A file of some kilobytes next to it is kept as a reserve: when the disk is full, the reserve makes room for the
    message about it.

    Args:
        path: the `run.json` to write, read first if it exists; `None` keeps the state in memory only.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._reserve = None if path is None else path.with_name(".reserve")
        self._values: dict[str, Any] = (path and read_state(path)) or {"version": VERSION}
        self._create_reserve()

    def __getitem__(self, key: str) -> Any:
        return self._values.get(key)

    @property
    def values(self) -> Mapping[str, Any]:
        """All values."""
        return self._values

    def update(self, **changes: Any) -> None:
        """Change some values and write all of them."""
        self._values.update(changes)
        if self._path is not None:
            self.write_with_reserve(self._path, self._values)

    def write_with_reserve(self, path: Path, document: Mapping[str, Any]) -> None:
        """Write a file of the run atomically, using up the reserve if the disk is full."""
        while True:
            try:
                write_json(path, document)
            except OSError as error:  # noqa: PERF203 - a full disk is rare, and each iteration frees some room
                if error.errno not in (errno.ENOSPC, errno.EDQUOT) or not self._shrink_reserve():
                    raise
            else:
                return

    def release_reserve(self) -> None:
        """Delete the reserve at the end of the run."""
        if self._reserve is not None:
            self._reserve.unlink(missing_ok=True)

    def _shrink_reserve(self) -> bool:
        """Free a part of the reserve, so that some is left for later messages; return whether there was any."""
        if self._reserve is None:
            return False
        try:
            left = self._reserve.stat().st_size - _PIECE_BYTES
            os.truncate(self._reserve, max(left, 0))
        except OSError:
            return False
        if left <= 0:
            self._reserve.unlink(missing_ok=True)
        return left >= 0

    def _create_reserve(self) -> None:
        if self._reserve is None:
            return
        try:
            # Real blocks, not a hole: a sparse file would hold no room.
            self._reserve.write_bytes(b"\0" * _RESERVE_BYTES)
        except OSError:
            self._reserve.unlink(missing_ok=True)


def read_state(path: Path) -> dict[str, Any] | None:
    """Read a `run.json`; `None` if it does not exist or is not a JSON object."""
    try:
        document = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return document if isinstance(document, dict) else None
