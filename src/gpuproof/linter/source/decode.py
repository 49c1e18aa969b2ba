"""Reads and decodes source files; rejects binary, oversized and special files."""

from __future__ import annotations

import codecs
import io
import os
import stat
import tokenize
from dataclasses import dataclass
from pathlib import Path

MAX_BYTES = 10_000_000
"""A file larger than this is data, not source."""


@dataclass(frozen=True)
class Unreadable(Exception):
    """A file that cannot be read as source.

    Args:
        reason: why, as a clause of a message.
        line: the line of the problem, from 1.
        broken: whether Python cannot read it either.
        is_source: False for a file whose type is not checked, such as a shell script.
    """

    reason: str
    line: int = 1
    broken: bool = True
    is_source: bool = True


def read_bytes(path: Path) -> bytes:
    """The content of a file.

    Raises:
        Unreadable: it is not a regular file, cannot be opened, or is too large to be source.
    """
    try:
        status = os.stat(path)  # noqa: PTH116  # runs for every file: no Path overhead
        if not stat.S_ISREG(status.st_mode):
            raise Unreadable("it is not a regular file", broken=False)
        if status.st_size > MAX_BYTES:
            size = f"it has {status.st_size / 1e6:.0f} MB, too large for source code"
            raise Unreadable(size, broken=False)
        with open(path, "rb") as file:  # noqa: PTH123
            return file.read()
    except OSError as error:
        raise Unreadable((error.strerror or str(error)).lower(), broken=False) from error


def decode(raw: bytes) -> tuple[str, str]:
    """Decode Python source into text with `\\n` line breaks, and return its encoding (PEP 263).

    Raises:
        Unreadable: the bytes are binary, or not in the declared encoding.
    """
    if b"\0" in raw[:8192] and not raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise Unreadable("it is a binary file, not Python source")
    head = raw[:400]
    declared = b"coding" in head or head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        encoding = tokenize.detect_encoding(io.BytesIO(raw).readline)[0] if declared else "utf-8"
        text = raw.decode(encoding)
    except SyntaxError as error:
        raise Unreadable(f"its encoding is unknown: {error.msg}") from error
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise Unreadable("it is not UTF-8 and declares no other encoding (PEP 263)", line) from error
    if "\0" in text:
        raise Unreadable("it is a binary file, not Python source")
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text.removeprefix("\ufeff"), encoding
