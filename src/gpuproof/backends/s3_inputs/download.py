"""Downloads the S3 inputs of a local run into the user's cache, each object once."""

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
from gpuproof.backends.progress import SubmitProgress
from gpuproof.backends.s3_inputs.cache import S3Cache
from gpuproof.backends.s3_inputs.mapping import S3Prefix, lay_out
from gpuproof.errors import GPUproofError
from gpuproof.util.humanize import format_bytes, pluralize

_PART = 32 * 2**20
_REPORT_SECONDS = 0.2


@dataclass(frozen=True)
class DownloadedInput:
    """An input in the cache.

    Args:
        folder: its files, which must not be changed.
        downloaded_bytes: bytes that were not in the cache yet.
    """

    folder: Path
    files: int
    total_bytes: int
    downloaded_bytes: int
    notes: tuple[str, ...]


def download_all(
    sources: Mapping[str, S3Prefix], aws: Aws, cache: Path, progress: SubmitProgress
) -> dict[str, DownloadedInput]:
    """Download every input; see `download`."""
    return {name: download(source, aws, cache, progress) for name, source in sources.items()}


def download(source: S3Prefix, aws: Aws, cache: Path, progress: SubmitProgress) -> DownloadedInput:
    """Download the objects of a prefix that are not in the cache yet.

    Args:
        progress: called in this thread, some times a second.

    Raises:
        InvalidJob: no object matches the prefix, or a key cannot become a file.
        GPUproofError: AWS refused or did not answer, or the disk is full. No partial file counts as downloaded.
    """
    layout = lay_out(source, aws.list_objects(source.bucket, source.prefix))
    store = S3Cache(cache / "s3")
    complete = store.is_complete(layout)
    missing = [] if complete else store.missing(layout)
    needed = sum(item.size for item in missing)
    if not complete:
        try:
            store.make()
            _check_free_space(source, needed, store.root)
            _download(
                missing, store, aws, lambda done: progress.transfer(f"Downloading {source}", done, needed)
            )
            store.link(layout)
        except OSError as error:
            raise _disk_error(source, store.root, error) from error
    total = sum(item.size for item in layout.files.values())
    content = f"{pluralize(len(layout.files), 'file')}, {format_bytes(total)}"
    news = f"{format_bytes(needed)} downloaded" if needed else "already in the cache"
    progress.report("download", f"{source}: {content}, {news}")
    return DownloadedInput(store.channel(layout), len(layout.files), total, needed, layout.notes)


def _download(missing: list[S3Object], store: S3Cache, aws: Aws, report: Callable[[int], None]) -> None:
    downloads = [_ObjectDownload(item, store) for item in missing]
    todo: queue.SimpleQueue[tuple[_ObjectDownload, int, int]] = queue.SimpleQueue()
    for entry in downloads:
        for start, length in entry.parts():
            todo.put((entry, start, length))
    counter = _ByteCounter()
    ended: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()

    def work() -> None:
        try:
            while True:
                one, start, length = todo.get_nowait()
                one.download_part(aws, start, length, counter)
        except queue.Empty:
            ended.put(None)
        except BaseException as error:  # noqa: BLE001 - raised again by the thread that waits
            ended.put(error)

    workers = min(CONNECTIONS, todo.qsize())
    try:
        for _ in range(workers):
            # Daemons that are not joined after an error: a connection that hangs must not hold up Ctrl-C.
            threading.Thread(target=work, daemon=True).start()
        while workers:
            report(counter.bytes)
            try:
                problem = ended.get(timeout=_REPORT_SECONDS)
            except queue.Empty:
                continue
            if problem is not None:
                raise problem
            workers -= 1
        report(counter.bytes)
    finally:
        counter.stop()
        for entry in downloads:
            entry.partial.unlink(missing_ok=True)


class _Stopped(Exception):
    """Another part failed, or the user interrupted the download."""


class _ByteCounter:
    """Counts downloaded bytes over all threads."""

    def __init__(self) -> None:
        self.bytes = 0
        self._stopped = False
        self._lock = threading.Lock()

    def add(self, count: int) -> None:
        """Add some bytes; raises _Stopped after `stop`."""
        with self._lock:
            self.bytes += count
        if self._stopped:
            raise _Stopped

    def stop(self) -> None:
        """Make every thread end at its next piece."""
        self._stopped = True


class _ObjectDownload:
    """Download of one object: a partial file that moves into the cache after its last part."""

    def __init__(self, item: S3Object, store: S3Cache) -> None:
        self.partial = store.new_partial()
        self._store = store
        self._item = item
        self._left = max(1, -(-item.size // _PART))
        self._lock = threading.Lock()

    def parts(self) -> Iterator[tuple[int, int]]:
        """The start and the length of each part; an empty object has one empty part."""
        for number in range(self._left):
            start = number * _PART
            yield start, min(_PART, self._item.size - start)

    def download_part(self, aws: Aws, start: int, length: int, counter: _ByteCounter) -> None:
        """Download one part."""
        counter.add(0)
        file = os.open(self.partial, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if length:
                aws.read_object(self._item, start, length, _PartWriter(file, start, counter).write)
        finally:
            os.close(file)
        with self._lock:
            self._left -= 1
            last = self._left == 0
        if last:
            self._store.add(self.partial, self._item)


class _PartWriter:
    """Writes one part to its file and counts it."""

    def __init__(self, file: int, start: int, counter: _ByteCounter) -> None:
        self._file = file
        self._start = start
        self._counted = 0
        self._counter = counter

    def write(self, at: int, content: bytes) -> None:
        view = memoryview(content)
        while view:
            written = os.pwrite(self._file, view, at)
            view, at = view[written:], at + written
        # After a lost connection the part starts again: bytes that were counted before are subtracted.
        received = at - self._start
        received, self._counted = received - self._counted, received
        self._counter.add(received)


def _check_free_space(source: S3Prefix, needed: int, root: Path) -> None:
    free = shutil.disk_usage(root).free
    if needed > free:
        raise _disk_full(
            f"{source} needs another {format_bytes(needed)}, but {root} has {format_bytes(free)} free", root
        )


def _disk_error(source: S3Prefix, root: Path, error: OSError) -> GPUproofError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return _disk_full(f"The disk is full: {source} could not be downloaded to {root}", root)
    return GPUproofError(
        f"{source} could not be written to the cache: {error.filename or root}: {error.strerror}.",
        remedy="Set GPUPROOF_CACHE_DIR to a writable folder.",
    )


def _disk_full(what: str, root: Path) -> GPUproofError:
    return GPUproofError(
        f"{what}. The run was not started.",
        remedy=f"Free some space ({root} may be deleted while no run uses it), or set GPUPROOF_CACHE_DIR to another disk.",
    )
