"""Whole files to S3 and copies within it: in parts, several at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from gpuproof.backends.aws.s3 import encryption
from gpuproof.backends.aws.s3_object import CONNECTIONS
from gpuproof.backends.aws.session import Asking

PART = 16 * 2**20
"""Bytes of one part; what is smaller goes in one request."""


class TransferCalls(Asking):
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
            with self._said("s3", "PutObject", what), self._manager() as manager:
                manager.upload(str(path), bucket, key, encryption(kms_key), [told.subscriber()]).result()

        self._patiently("s3", attempt)

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
            with self._said("s3", "CopyObject", what), self._manager() as manager:
                manager.copy(source, bucket, key, more).result()

        self._patiently("s3", attempt)

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
