"""Transfers to S3: whole files in parts, copies within S3, and a thread pool that an interrupt ends at once.

s3transfer's own `TransferManager.shutdown(cancel=True)` does not replace that pool: it waits for requests in flight, so a
connection that hangs holds up Ctrl-C for the read timeout, its threads are not daemons, and it passes its message where
an exception class belongs, so that the cancellation itself fails (s3transfer/manager.py, `_shutdown`).
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode

from gpuproof.backends.aws.s3_object import CONNECTIONS
from gpuproof.backends.aws.services.s3 import encryption
from gpuproof.backends.aws.session import AwsSession

T = TypeVar("T")

PART = 16 * 2**20
"""Size of a part in bytes; smaller files are sent in one request."""
_LOOK_SECONDS = 0.2
_SETTLE_SECONDS = 2.0


class TransferCalls(AwsSession):
    """The client's methods for file transfers."""

    def upload_file(
        self,
        bucket: str,
        key: str,
        path: Path,
        *,
        kms_key: str | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        """Upload a file; an existing object is replaced, when the upload is complete.

        Args:
            progress: called from several threads with the number of bytes sent; negative if they are sent again.
        """
        what = f"{path} to s3://{bucket}/{key}"
        uploaded = _UploadProgress(progress)

        def attempt() -> None:
            uploaded.reset()
            with self._translated("s3", "PutObject", what), self._manager() as manager:
                manager.upload(str(path), bucket, key, encryption(kms_key), [uploaded.subscriber()]).result()

        self._with_retries("s3", attempt)

    def copy_object(
        self,
        bucket: str,
        source_key: str,
        key: str,
        *,
        kms_key: str | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> None:
        """Copy an object within its bucket, on the server side.

        Args:
            tags: the tags of the copy; those of the source if None.
        """
        what = f"s3://{bucket}/{source_key} to s3://{bucket}/{key}"
        source = {"Bucket": bucket, "Key": source_key}
        more = encryption(kms_key)
        if tags is not None:
            more |= {"TaggingDirective": "REPLACE", "Tagging": urlencode(tags)}

        def attempt() -> None:
            with self._translated("s3", "CopyObject", what), self._manager() as manager:
                manager.copy(source, bucket, key, more).result()

        self._with_retries("s3", attempt)

    def _manager(self) -> Any:
        from boto3.s3 import transfer  # slow to import

        config = transfer.TransferConfig(
            multipart_threshold=PART,
            multipart_chunksize=PART,
            max_concurrency=CONNECTIONS,
            # The CRT client ignores the retry settings and the endpoint.
            preferred_transfer_client="classic",
        )
        return transfer.create_transfer_manager(self._client("s3"), config)


class _UploadProgress:
    """Reports progress, and subtracts the bytes of a failed attempt."""

    def __init__(self, progress: Callable[[int], None] | None) -> None:
        self._progress = progress
        self._sent = 0

    def reset(self) -> None:
        if self._sent and self._progress is not None:
            self._progress(-self._sent)
        self._sent = 0

    def subscriber(self) -> Any:
        from boto3.s3.transfer import ProgressCallbackInvoker  # slow to import

        return ProgressCallbackInvoker(self._count)

    def _count(self, count: int) -> None:
        self._sent += count
        if self._progress is not None:
            self._progress(count)


class TransferCancelled(Exception):
    """Another transfer failed, or the user interrupted the transfer."""


class ByteCounter:
    """Counts transferred bytes over all threads.

    Args:
        total: total number of bytes.
        progress: called with transferred and total bytes, by one thread at a time.
    """

    def __init__(self, total: int, progress: Callable[[int, int], None] | None) -> None:
        self._total = total
        self._progress = progress
        self._done = 0
        self._lock = threading.Lock()
        self._abandoned = False

    def add(self, count: int) -> None:
        """Count some bytes; negative if they have to be sent again.

        Raises:
            TransferCancelled: `cancel` was called.
        """
        with self._lock:
            if self._abandoned:
                raise TransferCancelled
            self._done += count
            if self._progress is not None and count:
                self._progress(self._done, self._total)

    def cancel(self) -> None:
        """Make every transfer end at its next piece, and stop reporting progress."""
        with self._lock:
            self._abandoned = True


def run_in_threads(tasks: Iterable[T], work: Callable[[T], None], tally: ByteCounter, workers: int) -> None:
    """Do all tasks in a pool of threads; the first error or an interrupt ends all of them."""
    todo: queue.SimpleQueue[T] = queue.SimpleQueue()
    count = 0
    for task in tasks:
        todo.put(task)
        count += 1
    ended: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()

    def work_through() -> None:
        try:
            while True:
                task = todo.get_nowait()
                tally.add(0)
                work(task)
        except queue.Empty:
            ended.put(None)
        except BaseException as error:  # noqa: BLE001 - raised again by the thread that waits
            # In this order: the other threads end with TransferCancelled, which is not the cause.
            ended.put(error)
            tally.cancel()

    left = 0
    try:
        for _ in range(min(workers, count)):
            # Daemons that are not waited for long after an error: a connection that hangs must not hold up Ctrl-C.
            left += 1
            threading.Thread(target=work_through, daemon=True).start()
        while left:
            try:
                problem = ended.get(timeout=_LOOK_SECONDS)
            except queue.Empty:
                continue
            left -= 1
            if problem is not None:
                raise problem
    finally:
        if left:
            tally.cancel()
            _settle(ended, left)


def _settle(ended: queue.SimpleQueue[BaseException | None], left: int) -> None:
    """Wait for requests in progress, so that no object appears after the caller has cleaned up."""
    until = time.monotonic() + _SETTLE_SECONDS
    for _ in range(left):
        try:
            ended.get(timeout=max(0.0, until - time.monotonic()))
        except queue.Empty:
            return
