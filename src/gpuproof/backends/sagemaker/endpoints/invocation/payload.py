"""What is sent to a model: files, JSON on the command line, and standard input, with their content types."""

from __future__ import annotations

import json
import mimetypes
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from gpuproof.errors import UsageError
from gpuproof.serve.media_types import CSV, JSON, JSON_LINES, NPY, NPZ, OCTETS

STDIN = "-"
_TYPES = {
    ".json": JSON,
    ".jsonl": JSON_LINES,
    ".jsonlines": JSON_LINES,
    ".ndjson": JSON_LINES,
    ".csv": CSV,
    ".npy": NPY,
    ".npz": NPZ,
    ".webp": "image/webp",
}


@dataclass(frozen=True)
class Payload:
    """The body of one request.

    Args:
        name: what it was read from, for people.
        content: the body; empty for an object that is already in S3.
        uri: address of the object in S3; empty for a body.
    """

    name: str
    content: bytes
    content_type: str
    uri: str = ""


def read_payload(data: str, content_type: str | None, stdin: BinaryIO | None) -> Payload:
    """Read the data of a request: a file, `-`, an address in S3, or JSON itself.

    Args:
        content_type: of the body; by the file's suffix if None.
        stdin: what `-` stands for; None for a file of that name.

    Raises:
        UsageError: it is none of these, or the file cannot be read.
    """
    if data == STDIN and stdin is not None:
        return Payload("standard input", stdin.read(), content_type or JSON)
    if data.startswith("s3://"):
        return Payload(data, b"", content_type or content_type_of(data), uri=data)
    path = Path(data)
    try:
        if path.is_dir():
            raise UsageError(
                f"{data} is a folder.",
                remedy=f"Name files: gpuproof predict NAME --data {data.rstrip('/')}/FILE",
            )
        if path.is_file():
            return Payload(data, path.read_bytes(), content_type or content_type_of(data))
    except OSError as error:
        # JSON can be longer than a file's name may be.
        if not _is_json(data):
            raise UsageError(f"Cannot read {data[:200]}: {error.strerror}.") from error
    if _is_json(data):
        return Payload("--data", data.encode(), content_type or JSON)
    raise UsageError(
        f"{data[:200]} is neither a file nor JSON.",
        remedy="Name a file, or write JSON in single quotes ('[[1, 2]]')"
        + ("." if stdin is None else ", or use - for standard input."),
    )


def check_content_type(argument: str, value: str | None) -> str | None:
    """Returns a content type unchanged. Raises UsageError, which names the argument, if no HTTP header can hold it."""
    if set("\r\n") & set(value or ""):
        raise UsageError(f"{argument} must be one line, such as application/json.")
    return value


def content_type_of(name: str) -> str:
    """The media type of a file by its suffix."""
    suffix = Path(name).suffix.lower()
    return _TYPES.get(suffix) or mimetypes.guess_type(f"x{suffix}")[0] or OCTETS


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
