"""The kernel's log: its lines, as `/dev/kmsg`, dmesg and journalctl have them."""

from __future__ import annotations

import os
import re
from pathlib import Path

_RECORD = re.compile(r"\d+,\d+,(\d+),[^;]*;(.*)")
_PRINTED = re.compile(r"(?:<\d+>)?\[\s*(\d+\.\d+)\] ?(?:\w+ kernel: )?(.*)")
_MAX_BYTES = 8 << 20
"""Only this much of the log is read; nearly every ring buffer is smaller."""


def parse_kernel_log(text: str) -> tuple[tuple[float, str], ...]:
    """Parse lines of `/dev/kmsg` (`6,901,12345678,-;text`), `dmesg` or `journalctl -o short-monotonic` (`[12.34] text`)."""
    lines: list[tuple[float, str]] = []
    for line in text.splitlines():
        if record := _RECORD.match(line):
            lines.append((int(record[1]) / 1e6, record[2]))
        elif printed := _PRINTED.match(line):
            lines.append((float(printed[1]), _without_host(printed[2])))
    return tuple(lines)


def read_ring_buffer(path: Path) -> str | None:
    """Read `/dev/kmsg`; `None` without permission, as in most containers.

    Each read returns one record, and a read beyond the last would block.
    """
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return None
    pieces: list[bytes] = []
    size = 0
    try:
        while size < _MAX_BYTES:
            try:
                piece = os.read(file, 1 << 16)
            except BlockingIOError:
                break
            except BrokenPipeError:
                continue  # records were overwritten meanwhile: the next read continues after them
            except OSError:
                return None
            if not piece:
                break
            pieces.append(piece)
            size += len(piece)
    finally:
        os.close(file)
    return b"".join(pieces).decode(errors="replace")


def _without_host(text: str) -> str:
    """Strip `host kernel: `, which journal lines have before the text."""
    host, found, rest = text.partition(" kernel: ")
    return rest if found and " " not in host else text
