"""An S3 object as a value, without the client."""

from __future__ import annotations

from dataclasses import dataclass

CONNECTIONS = 8
"""Maximum number of concurrent requests to one service."""


@dataclass(frozen=True)
class S3Object:
    """One object on S3, as in a listing.

    Args:
        size: in bytes.
        modified: seconds since the epoch.
    """

    bucket: str
    key: str
    size: int
    etag: str
    modified: float

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.key}"
