"""Follows a local run: its output as it is written, its changes of state, its end."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gpuproof.agent.state import read_state
from gpuproof.backends.base import Event, Live, Output
from gpuproof.backends.local.run_folders import RunFolders
from gpuproof.backends.record import RunRecord
from gpuproof.util.file_watch import FileWatch

_CHUNK = 1 << 20
_BATCH_SECONDS = 0.01
# A killed agent writes nothing: releasing the lock is an event too, but not on macOS or on a network file system.
_POLL_SECONDS = 5.0


def follow(store: RunFolders, run_id: str, *, offset: int = 0, live: bool = False) -> Iterator[Event]:
    """Yield the events of a run until it has ended; the last event is its final record.

    Args:
        store: the folders of all runs.
        run_id: the run's id.
        offset: bytes of its output to skip at the beginning.
        live: also yield `Live` samples.

    Raises:
        RunNotFound: there is no such run, or it was removed in the meantime.
    """
    paths = store.paths(run_id)
    record = store.record(run_id)
    with FileWatch([paths.root, paths.logs]) as changes:
        reader = _Tail(paths.log(), offset)
        sample_seen: dict[str, Any] | None = None
        shown: RunRecord | None = None
        gathered = 0.0
        while True:
            record = store.record(run_id)
            if record != shown and not record.has_ended:
                yield record
                shown = record
            got = 0
            for content in reader.read():
                got += len(content)
                yield Output(content)
            if record.has_ended:
                yield record
                return
            if live and (sample := read_state(paths.live)) not in (None, sample_seen):
                sample_seen = sample
                yield Live(sample)
            now = time.monotonic()
            if 0 < got < _CHUNK and now - gathered < 2 * _BATCH_SECONDS:
                # Continuous output: wait for more of it, so that not every line wakes this process.
                time.sleep(_BATCH_SECONDS)
            gathered = now if got else gathered
            changes.wait(_POLL_SECONDS)


class _Tail:
    """Reads what was appended to a file."""

    def __init__(self, path: Path, offset: int) -> None:
        self._path = path
        self._offset = offset

    def read(self) -> Iterator[bytes]:
        try:
            with self._path.open("rb", buffering=0) as file:
                file.seek(self._offset)
                while content := file.read(_CHUNK):
                    self._offset += len(content)
                    yield content
        except FileNotFoundError:
            return
