"""Following a run on this machine: its output as it comes, its changes of state, its end."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gpuproof.agent.state import read_state
from gpuproof.backends.base import Event, Live, Output
from gpuproof.backends.local.store import RunStore
from gpuproof.backends.record import RunRecord
from gpuproof.util.file_watch import FileWatch

_CHUNK = 1 << 20
_GATHER_SECONDS = 0.01
# An end without a last word: the lock's release is an event too, but on macOS, and for a folder on a network disk,
# nothing tells.
_LOOK_SECONDS = 5.0


def follow(store: RunStore, run_id: str, *, offset: int = 0, live: bool = False) -> Iterator[Event]:
    """Everything that a run says until it has ended; the last event is its final record.

    Args:
        store: where the run is.
        run_id: its id.
        offset: bytes of its output to leave out at the beginning.
        live: whether samples are wanted too.

    Raises:
        RunNotFound: there is no such run, or it was removed meanwhile.
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
            if 0 < got < _CHUNK and now - gathered < 2 * _GATHER_SECONDS:
                # Output without pause: let some of it gather, or each line wakes us.
                time.sleep(_GATHER_SECONDS)
            gathered = now if got else gathered
            changes.wait(_LOOK_SECONDS)


class _Tail:
    """Reads what is new in a file that grows."""

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
