"""Follows a local run: its output as it is written, its changes of state, its end."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

from gpuproof.agent.paths import RunPaths
from gpuproof.agent.state import read_state
from gpuproof.backends.base import Event, Live, Output
from gpuproof.backends.live_samples import merge_samples
from gpuproof.backends.local.host_logs import LogReader
from gpuproof.backends.local.run_folders import RunFolders
from gpuproof.backends.record import RunRecord
from gpuproof.util.file_watch import FileWatch

_CHUNK = 1 << 20
_BATCH_SECONDS = 0.01
# A killed agent writes nothing: releasing the lock is an event too, but not on macOS or on a network file system.
_POLL_SECONDS = 5.0


def follow(store: RunFolders, run_id: str, reader: LogReader, *, live: bool = False) -> Iterator[Event]:
    """Yield the events of a run until it has ended; the last event is its final record.

    Args:
        store: the folders of all runs.
        live: also yield `Live` samples.

    Raises:
        RunNotFound: there is no such run, or it was removed in the meantime.
    """
    paths = store.paths(run_id)
    record = store.record(run_id)
    hosts = record.hosts if len(record.hosts) > 1 else ()
    # The samples of several hosts are in their own folders, and change once a second.
    folders = [paths.host(host).root for host in hosts if live]
    with FileWatch([paths.root, paths.logs, *folders]) as changes:
        sample_seen: dict[str, Any] | None = None
        shown: RunRecord | None = None
        gathered = 0.0
        while True:
            record = store.record(run_id)
            # A short run may have ended before it was seen to run: its output comes after its start.
            starts = record.started is not None and (shown is None or shown.started is None)
            if record != shown and (starts or not record.has_ended):
                yield record
                shown = record
            got = 0
            for content in reader.read(final=record.has_ended):
                got += len(content)
                yield Output(content)
            if record.has_ended:
                yield record
                return
            if live and (sample := _sample(paths, hosts)) not in (None, sample_seen):
                sample_seen = sample
                yield Live(sample)
            now = time.monotonic()
            if 0 < got < _CHUNK and now - gathered < 2 * _BATCH_SECONDS:
                # Continuous output: wait for more of it, so that not every line wakes this process.
                time.sleep(_BATCH_SECONDS)
            gathered = now if got else gathered
            changes.wait(_POLL_SECONDS)


def _sample(paths: RunPaths, hosts: Sequence[str]) -> dict[str, Any] | None:
    """The newest sample; of several hosts, the sum of theirs."""
    if not hosts:
        return read_state(paths.live)
    samples = {host: sample for host in hosts if (sample := read_state(paths.host(host).live)) is not None}
    return merge_samples(samples) if samples else None
