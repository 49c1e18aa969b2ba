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
    """

    reason: str
    line: int = 1


def read_bytes(path: Path) -> bytes:
    """A file's content.

    Raises:
        Unreadable: it is no plain file, is not ours to read, or is too large to be source.
    """
    try:
        status = os.stat(path)  # noqa: PTH116  # one call, no Path overhead: this runs for every file
        if not stat.S_ISREG(status.st_mode):
            raise Unreadable("it is not a plain file")
        if status.st_size > MAX_BYTES:
            raise Unreadable(f"it has {status.st_size / 1e6:.0f} MB, more than any source file: is it data?")
        with open(path, "rb") as file:  # noqa: PTH123
            return file.read()
    except OSError as error:
        raise Unreadable((error.strerror or str(error)).lower()) from error


def decode(raw: bytes) -> tuple[str, str]:
    """Python source as text, with `\\n` between lines, and its encoding (PEP 263).

    Raises:
        Unreadable: the bytes are binary, or not in the encoding that they claim.
    """
    if b"\0" in raw[:8192] and not raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise Unreadable("it is a binary file, not Python source")
    if raw.isascii() and b"coding" not in raw[:200]:
        text, encoding = raw.decode("ascii"), "utf-8"
    else:
        try:
            encoding, _ = tokenize.detect_encoding(io.BytesIO(raw).readline)
            text = raw.decode(encoding)
        except SyntaxError as error:
            raise Unreadable(f"its encoding cannot be told: {error.msg}") from error
        except (UnicodeDecodeError, LookupError) as error:
            start = error.start if isinstance(error, UnicodeDecodeError) else 0
            line = raw.count(b"\n", 0, start) + 1
            raise Unreadable("it is not UTF-8 and declares no other encoding (PEP 263)", line) from error
    if "\0" in text:
        raise Unreadable("it is a binary file, not Python source")
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text.removeprefix("\ufeff"), encoding
