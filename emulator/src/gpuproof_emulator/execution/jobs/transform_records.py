"""Splits the objects of a batch transform into requests, and assembles the responses.

Source: https://docs.aws.amazon.com/sagemaker/latest/dg/batch-transform.html
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

MEGABYTE = 1_000_000


class TooLarge(Exception):
    """A record is larger than MaxPayloadInMB; the message states both."""


def split_object(content: bytes, split: str, strategy: str, max_payload_mb: int) -> Iterator[bytes]:
    """The bodies of the requests for one object.

    Args:
        content: of the object.
        split: `None` (the whole object) or `Line`.
        strategy: `SingleRecord` or `MultiRecord` (as many lines as fit).
        max_payload_mb: maximum size of a body, in MB; 0 for no limit.

    Raises:
        TooLarge: a line, or the whole object, exceeds the maximum.
    """
    limit = max_payload_mb * MEGABYTE or None
    if split != "Line":
        yield _checked(content, limit)
        return
    batch: list[bytes] = []
    size = 0
    for line in content.splitlines():
        if not line:
            continue
        record = _checked(line, limit)
        if batch and (strategy == "SingleRecord" or (limit is not None and size + len(record) + 1 > limit)):
            yield b"\n".join(batch)
            batch, size = [], 0
        batch.append(record)
        size += len(record) + 1
    if batch:
        yield b"\n".join(batch)


def assemble(responses: Iterable[bytes], assemble_with: str) -> bytes:
    """The content of an output object.

    Args:
        assemble_with: `None` (the responses as they are) or `Line` (each ends with a line break).
    """
    if assemble_with != "Line":
        return b"".join(responses)
    return b"".join(part if part.endswith(b"\n") else part + b"\n" for part in responses)


def _checked(record: bytes, limit: int | None) -> bytes:
    if limit is not None and len(record) > limit:
        raise TooLarge(f"a record of {len(record)} bytes exceeds MaxPayloadInMB={limit // MEGABYTE}")
    return record
