"""TensorBoard: an event file in the folder `gpuproof` next to those that the script writes. Needs no package.

Formats: TFRecord (https://www.tensorflow.org/tutorials/load_data/tfrecord#tfrecords_format_details) of the message `Event`
(tensorflow/core/util/event.proto, tensorflow/core/framework/summary.proto).
"""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpuproof.agent.sinks.event_files import OWN_FOLDER
from gpuproof.agent.sinks.metrics import Point, Run, key, prefix


class Writer:
    """Writes an event file."""

    def __init__(self, run: Run) -> None:
        assert run.target is not None
        folder = Path(run.target)
        if folder.name != OWN_FOLDER:
            folder /= OWN_FOLDER
        folder.mkdir(parents=True, exist_ok=True)
        name = f"events.out.tfevents.{int(run.started)}.{socket.gethostname()}.{os.getpid()}.gpuproof"
        self._file = (folder / name).open("wb")
        self._run = run
        self._step = 0
        self.location: str | None = str(folder)
        self._add(_double(1, run.started) + _bytes(3, b"brain.Event:2"))

    def write(self, point: Point) -> None:
        self._step = int(point.seconds)
        self._add_values(point.at, {key(value, self._run): value.value for value in point.values})

    def finish(self, summary: Mapping[str, float | str] | None, verdict: Mapping[str, Any] | None) -> None:
        del verdict
        numbers = {
            f"{prefix(self._run)}summary/{name}": value
            for name, value in (summary or {}).items()
            if not isinstance(value, str)
        }
        self._add_values(time.time(), numbers)
        self._file.close()

    def _add_values(self, at: float, values: Mapping[str, float]) -> None:
        if not values:
            return
        message = b"".join(
            _bytes(1, _bytes(1, name.encode()) + struct.pack("<Bf", 2 << 3 | 5, value))
            for name, value in values.items()
        )
        self._add(_double(1, at) + _varint(2 << 3) + _varint(self._step) + _bytes(5, message))

    def _add(self, event: bytes) -> None:
        length = struct.pack("<Q", len(event))
        self._file.write(length + _checksum(length) + event + _checksum(event))
        self._file.flush()


def _double(field: int, value: float) -> bytes:
    return struct.pack("<Bd", field << 3 | 1, value)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def _table() -> list[int]:
    """CRC-32C, https://www.rfc-editor.org/rfc/rfc3720#appendix-B.4, of each byte."""
    table: list[int] = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


_CRC = _table()


def _checksum(content: bytes) -> bytes:
    value = 0xFFFFFFFF
    for byte in content:
        value = value >> 8 ^ _CRC[(value ^ byte) & 0xFF]
    value ^= 0xFFFFFFFF
    masked = ((value >> 15 | value << 17 & 0xFFFFFFFF) + 0xA282EAD8) & 0xFFFFFFFF
    return struct.pack("<I", masked)
