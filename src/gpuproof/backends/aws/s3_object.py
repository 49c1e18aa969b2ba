"""An object on S3, without the client: what a layout of files needs."""

from __future__ import annotations

from dataclasses import dataclass

CONNECTIONS = 8
"""Requests to one service that may be under way at a time."""


@dataclass(frozen=True)
class S3Object:
    """One object on S3, as a listing shows it.

    Args:
        bucket: its bucket.
        key: its key.
        size: in bytes.
        etag: changes whenever the content does.
        modified: seconds since the epoch.
    """

    bucket: str
    key: str
    size: int
    etag: str
    modified: float

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.key}"
