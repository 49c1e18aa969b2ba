"""From a file's bytes to text: encodings, and what is no text at all."""

from __future__ import annotations

import codecs
import io
import os
import stat
import tokenize
from dataclasses import dataclass
from pathlib import Path

MAX_BYTES = 10_000_000
"""A source file larger than this is data; reading it would take longer than all others together."""


@dataclass(frozen=True)
class Unreadable(Exception):
    """A file that cannot be read as source.

    Args:
        reason: why, in the words of a message.
        line: where that shows, from 1.
        broken: whether Python could not read it either; otherwise it is only we who do not.
    """

    reason: str
    line: int = 1
    broken: bool = True


def read_bytes(path: Path) -> bytes:
    """A file's content.

    Raises:
        Unreadable: it is no plain file, is not ours to read, or is too large to be source.
    """
    try:
        status = os.stat(path)  # noqa: PTH116  # one call, no Path overhead: this runs for every file
        if not stat.S_ISREG(status.st_mode):
            raise Unreadable("it is not a plain file", broken=False)
        if status.st_size > MAX_BYTES:
            size = f"it has {status.st_size / 1e6:.0f} MB, more than anybody's own source"
            raise Unreadable(size, broken=False)
        with open(path, "rb") as file:  # noqa: PTH123
            return file.read()
    except OSError as error:
        raise Unreadable((error.strerror or str(error)).lower(), broken=False) from error


def decode(raw: bytes) -> tuple[str, str]:
    """Python source as text, with `\\n` between lines, and its encoding (PEP 263).

    Raises:
        Unreadable: the bytes are binary, or not in the encoding that they claim.
    """
    if b"\0" in raw[:8192] and not raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise Unreadable("it is a binary file, not Python source")
    head = raw[:400]
    declared = b"coding" in head or head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        encoding = tokenize.detect_encoding(io.BytesIO(raw).readline)[0] if declared else "utf-8"
        text = raw.decode(encoding)
    except SyntaxError as error:
        raise Unreadable(f"its encoding cannot be told: {error.msg}") from error
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise Unreadable("it is not UTF-8, and declares no other encoding (PEP 263)", line) from error
    if "\0" in text:
        raise Unreadable("it is a binary file, not Python source")
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text.removeprefix("\ufeff"), encoding
