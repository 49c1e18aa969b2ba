"""Inputs on S3 for a run on this machine: downloaded once, kept in the user's cache, handed to the run as a folder."""

from __future__ import annotations

import errno
import os
import queue
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from gpuproof.backends.aws import CONNECTIONS, Aws, S3Object
from gpuproof.backends.local.s3_inputs.cache import S3Cache
from gpuproof.backends.local.s3_inputs.mapping import S3Prefix, lay_out
from gpuproof.errors import GPUproofError
from gpuproof.util.humanize import format_bytes

_PART = 32 * 2**20
_REPORT_SECONDS = 0.2


@dataclass(frozen=True)
class Brought:
    """An input that is now on this machine.

    Args:
        folder: its files; nobody may change them.
        files: how many.
        total_bytes: their sizes, all together.
        downloaded_bytes: what had to be downloaded for it.
        notes: what a person should know.
    """

    folder: Path
    files: int
    total_bytes: int
    downloaded_bytes: int
    notes: tuple[str, ...]


class Watch:
    """Told how inputs come in, in the thread that brings them; this one keeps it to itself."""

    def progress(self, source: S3Prefix, done: int, total: int) -> None:
        """So many bytes of so many have arrived; told some times a second."""

    def brought(self, source: S3Prefix, result: Brought) -> None:
        """All of it is here."""


def bring_all(
    sources: Mapping[str, S3Prefix], aws: Aws, cache: Path, watch: Watch | None = None
) -> dict[str, Brought]:
    """Bring every input to this machine; see `bring`."""
    told = watch or Watch()
    return {name: bring(source, aws, cache, told) for name, source in sources.items()}


def bring(source: S3Prefix, aws: Aws, cache: Path, watch: Watch) -> Brought:
    """Bring all objects of a prefix to this machine: those that are there already stay, the others are downloaded.

    Args:
        cache: the user's cache folder.

    Raises:
        InvalidJob: the prefix holds nothing, or a key cannot become a file.
        GPUproofError: AWS refused or did not answer, or the disk is full. Nothing half is left that counts.
    """
    layout = lay_out(source, aws.list_objects(source.bucket, source.prefix))
    store = S3Cache(cache / "s3")
    complete = store.is_complete(layout)
    missing = [] if complete else store.missing(layout)
    needed = sum(item.size for item in missing)
    if not complete:
        try:
            store.make()
            _refuse_full_disk(source, needed, store.root)
            _download(missing, store, aws, lambda done: watch.progress(source, done, needed))
            store.link(layout)
        except OSError as error:
            raise _disk_error(source, store.root, error) from error
    total = sum(item.size for item in layout.files.values())
    brought = Brought(store.channel(layout), len(layout.files), total, needed, layout.notes)
    watch.brought(source, brought)
    return brought


def _download(missing: list[S3Object], store: S3Cache, aws: Aws, report: Callable[[int], None]) -> None:
    arrivals = [_Arrival(item, store) for item in missing]
    todo: queue.SimpleQueue[tuple[_Arrival, int, int]] = queue.SimpleQueue()
    for arrival in arrivals:
        for start, length in arrival.parts():
            todo.put((arrival, start, length))
    tally = _Tally()
    ended: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()

    def work() -> None:
        try:
            while True:
                arrival, start, length = todo.get_nowait()
                arrival.take(aws, start, length, tally)
        except queue.Empty:
            ended.put(None)
        except BaseException as error:  # noqa: BLE001 - raised again where the download is waited for
            ended.put(error)

    workers = min(CONNECTIONS, todo.qsize())
    for _ in range(workers):
        # Daemons, and not waited for after a fault: a connection that hangs must not hold up Ctrl-C.
        threading.Thread(target=work, daemon=True).start()
    try:
        while workers:
            report(tally.bytes)
            try:
                problem = ended.get(timeout=_REPORT_SECONDS)
            except queue.Empty:
                continue
            if problem is not None:
                raise problem
            workers -= 1
        report(tally.bytes)
    finally:
        tally.stop()
        for arrival in arrivals:
            arrival.partial.unlink(missing_ok=True)


class _Stopped(Exception):
    """Another part failed, or the user did not want to wait."""


class _Tally:
    """How many bytes have arrived, over all threads."""

    def __init__(self) -> None:
        self.bytes = 0
        self._stopped = False
        self._lock = threading.Lock()

    def add(self, count: int) -> None:
        """Count some; raises _Stopped when nobody wants them any more."""
        with self._lock:
            self.bytes += count
        if self._stopped:
            raise _Stopped

    def stop(self) -> None:
        self._stopped = True


class _Arrival:
    """One object on its way: a partial file that becomes the cache's when its last part is there."""

    def __init__(self, item: S3Object, store: S3Cache) -> None:
        self.partial = store.spare()
        self._store = store
        self._item = item
        self._left = max(1, -(-item.size // _PART))
        self._lock = threading.Lock()

    def parts(self) -> Iterator[tuple[int, int]]:
        """Where each part begins, and its bytes; an empty object has one empty part."""
        for number in range(self._left):
            start = number * _PART
            yield start, min(_PART, self._item.size - start)

    def take(self, aws: Aws, start: int, length: int, tally: _Tally) -> None:
        """Download one part."""
        tally.add(0)
        file = os.open(self.partial, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if length:
                aws.read_object(self._item, start, length, _Writer(file, start, tally).write)
        finally:
            os.close(file)
        with self._lock:
            self._left -= 1
            last = self._left == 0
        if last:
            self._store.keep(self.partial, self._item)


class _Writer:
    """Writes one part into its file, and counts it."""

    def __init__(self, file: int, start: int, tally: _Tally) -> None:
        self._file = file
        self._start = start
        self._counted = 0
        self._tally = tally

    def write(self, at: int, content: bytes) -> None:
        view = memoryview(content)
        while view:
            written = os.pwrite(self._file, view, at)
            view, at = view[written:], at + written
        # After a break the part comes again from its beginning: what was counted of it is taken back.
        arrived = at - self._start
        arrived, self._counted = arrived - self._counted, arrived
        self._tally.add(arrived)


def _refuse_full_disk(source: S3Prefix, needed: int, root: Path) -> None:
    free = shutil.disk_usage(root).free
    if needed > free:
        raise _no_room(
            f"{source} needs {format_bytes(needed)} more, and {root} has {format_bytes(free)} free", root
        )


def _disk_error(source: S3Prefix, root: Path, error: OSError) -> GPUproofError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return _no_room(f"The disk became full while {source} was downloaded to {root}", root)
    return GPUproofError(
        f"{source} could not be kept: {error.filename or root}: {error.strerror}.",
        remedy="Set GPUPROOF_CACHE_DIR to a folder of yours.",
    )


def _no_room(what: str, root: Path) -> GPUproofError:
    return GPUproofError(
        f"{what}. No run was made.",
        remedy=f"Make room ({root} may be removed while no run needs it), or set GPUPROOF_CACHE_DIR to another disk.",
    )
