"""Where reports meet, as users write it."""

from __future__ import annotations

S3_SCHEME = "s3://"


def bucket_of(location: str) -> str:
    """The bucket of an `s3://` location; empty if it names none."""
    return location[len(S3_SCHEME) :].partition("/")[0]
