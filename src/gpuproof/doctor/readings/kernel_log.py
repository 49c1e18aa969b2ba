"""The kernel's log of this boot, from wherever it may be read."""

from __future__ import annotations

import os
import re
from pathlib import Path

from gpuproof.doctor.machine import Machine, read_once

_RECORD = re.compile(r"\d+,\d+,(\d+),[^;]*;(.*)")
_PRINTED = re.compile(r"(?:<\d+>)?\[\s*(\d+\.\d+)\] ?(?:\w+ kernel: )?(.*)")
_MOST = 8 << 20
"""Bytes of log that are looked at; the ring buffer is smaller on nearly every machine."""


def read_kernel_log(machine: Machine) -> tuple[tuple[float, str], ...] | None:
    """Seconds since boot and text of each line; `None` where nothing lets us read it, as in most containers."""
    return read_once(machine, "kernel log", _read)


def parse(text: str) -> tuple[tuple[float, str], ...]:
    """Lines of `/dev/kmsg` (`6,901,12345678,-;text`), `dmesg` or `journalctl -o short-monotonic` (`[12.34] text`)."""
    lines: list[tuple[float, str]] = []
    for line in text.splitlines():
        if record := _RECORD.match(line):
            lines.append((int(record[1]) / 1e6, record[2]))
        elif printed := _PRINTED.match(line):
            lines.append((float(printed[1]), _without_host(printed[2])))
    return tuple(lines)


def _read(machine: Machine) -> tuple[tuple[float, str], ...] | None:
    text = _ring_buffer(machine)
    if text is None and machine.root != Path("/"):
        return None  # the programs at hand would tell of this machine, not of that one
    if text is None:
        said = machine.run_command("dmesg", seconds=3)
        text = said.output if said.code == 0 else None
    if text is None:
        journal = ("journalctl", "-k", "-b", "-q", "--no-pager", "-o", "short-monotonic", "-n", "5000")
        said = machine.run_command(*journal, seconds=3)
        text = said.output if said.code == 0 and said.output else None
    return None if text is None else parse(text)


def _ring_buffer(machine: Machine) -> str | None:
    """`/dev/kmsg`, record by record; each read gives one, and a read beyond the last would wait."""
    try:
        file = os.open(machine.path("/dev/kmsg"), os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return None
    pieces: list[bytes] = []
    size = 0
    try:
        while size < _MOST:
            try:
                piece = os.read(file, 1 << 16)
            except BlockingIOError:
                break
            except BrokenPipeError:
                continue  # records were overwritten while we read: the next read goes on behind them
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
    """Journal lines carry `host kernel: ` before the text."""
    host, found, rest = text.partition(" kernel: ")
    return rest if found and " " not in host else text
