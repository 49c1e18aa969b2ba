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

from gpuproof.backends.aws.s3 import encryption
from gpuproof.backends.aws.s3_object import CONNECTIONS
from gpuproof.backends.aws.session import AwsSession

T = TypeVar("T")

PART = 16 * 2**20
"""Bytes of one part; what is smaller goes in one request."""
_LOOK_SECONDS = 0.2
_SETTLE_SECONDS = 2.0


class TransferCalls(AwsSession):
    """The part of the client that moves files."""

    def upload_file(
        self,
        bucket: str,
        key: str,
        path: Path,
        *,
        kms_key: str | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        """Write a file's content, over any that is there; nothing is to be seen under the key before all of it is.

        Args:
            progress: told, in several threads, how many bytes more have gone out; less than 0 where they go again.
        """
        what = f"{path} to s3://{bucket}/{key}"
        told = _Told(progress)

        def attempt() -> None:
            told.forget()
            with self._translated("s3", "PutObject", what), self._manager() as manager:
                manager.upload(str(path), bucket, key, encryption(kms_key), [told.subscriber()]).result()

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
        """Copy an object within its bucket; S3 does it, and nothing passes through this machine.

        Args:
            tags: the copy's; those of the source if None.
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
        from boto3.s3 import transfer  # with boto3

        config = transfer.TransferConfig(
            multipart_threshold=PART,
            multipart_chunksize=PART,
            max_concurrency=CONNECTIONS,
            # The other client, in C, knows neither our retries nor our endpoint.
            preferred_transfer_client="classic",
        )
        return transfer.create_transfer_manager(self._client("s3"), config)


class _Told:
    """Tells progress, and takes back what was told of an attempt that failed."""

    def __init__(self, progress: Callable[[int], None] | None) -> None:
        self._progress = progress
        self._sent = 0

    def forget(self) -> None:
        if self._sent and self._progress is not None:
            self._progress(-self._sent)
        self._sent = 0

    def subscriber(self) -> Any:
        from boto3.s3.transfer import ProgressCallbackInvoker  # with boto3

        return ProgressCallbackInvoker(self._count)

    def _count(self, count: int) -> None:
        self._sent += count
        if self._progress is not None:
            self._progress(count)


class TransferCancelled(Exception):
    """Another transfer failed, or the user did not want to wait."""


class ByteCounter:
    """How many bytes have gone, over all threads.

    Args:
        total: of all that has to go.
        progress: told how many of how many bytes, by one thread at a time.
    """

    def __init__(self, total: int, progress: Callable[[int, int], None] | None) -> None:
        self._total = total
        self._progress = progress
        self._done = 0
        self._lock = threading.Lock()
        self._abandoned = False

    def add(self, count: int) -> None:
        """Count some; less than 0 where they have to go again.

        Raises:
            TransferCancelled: nobody wants them any more.
        """
        with self._lock:
            if self._abandoned:
                raise TransferCancelled
            self._done += count
            if self._progress is not None and count:
                self._progress(self._done, self._total)

    def cancel(self) -> None:
        """Have every transfer end at its next piece, and tell nothing more."""
        with self._lock:
            self._abandoned = True


def run_in_threads(tasks: Iterable[T], work: Callable[[T], None], tally: ByteCounter, workers: int) -> None:
    """Do all tasks, some at a time; the first error ends it, and so does an interrupt."""
    todo: queue.SimpleQueue[T] = queue.SimpleQueue()
    count = 0
    for task in tasks:
        todo.put(task)
        count += 1
    ended: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()

    def one_after_the_other() -> None:
        try:
            while True:
                task = todo.get_nowait()
                tally.add(0)
                work(task)
        except queue.Empty:
            ended.put(None)
        except BaseException as error:  # noqa: BLE001 - raised again where the work is waited for
            # In this order: the others end as abandoned, which is not what went wrong.
            ended.put(error)
            tally.cancel()

    left = 0
    try:
        for _ in range(min(workers, count)):
            # Daemons, and not waited for long after a fault: a connection that hangs must not hold up Ctrl-C.
            left += 1
            threading.Thread(target=one_after_the_other, daemon=True).start()
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
    """Let what is on its way arrive, so that nothing appears after whoever called has looked or tidied up."""
    until = time.monotonic() + _SETTLE_SECONDS
    for _ in range(left):
        try:
            ended.get(timeout=max(0.0, until - time.monotonic()))
        except queue.Empty:
            return
