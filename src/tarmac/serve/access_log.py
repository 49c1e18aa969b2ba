"""The access log: one JSON object a line on standard output, written by a thread of its own."""

from __future__ import annotations

import json
import queue
import sys
import threading
import time
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Callable, TextIO

from tarmac.serve.records import Record

_EVERY_S = 0.25
_IN_A_ROW = 32
"""Lines made at a time: 0.2 ms of the interpreter's lock."""
_BREATH_S = 0.0001
_encode = json.JSONEncoder(separators=(",", ":")).encode
_MOST_WAITING = 20_000


class AccessLog:
    """Writes records a moment after they were made: whoever reads standard output slowly slows nobody down.

    Args:
        stream: where to write; `None` writes nothing.
        also: told each bundle of records in the same thread, for traces.
    """

    def __init__(self, stream: TextIO | None, also: Callable[[Sequence[Record]], None] | None = None) -> None:
        self._stream = stream
        self._also = also
        self._waiting: list[Record] = []
        self._dropped = 0
        self._wake: queue.Queue[bool] = queue.Queue()
        self._thread = threading.Thread(target=self._run, name="tarmac-access-log", daemon=True)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def add(self, record: Record) -> None:
        """Remember a record; dropped, and counted, when nobody reads what is written."""
        if len(self._waiting) < _MOST_WAITING:
            self._waiting.append(record)
        else:
            self._dropped += 1

    def stop(self, patience_s: float = 2.0) -> None:
        """Write what is left."""
        self._wake.put(True)
        self._thread.join(patience_s)

    def _run(self) -> None:
        stopping = False
        while not stopping:
            try:
                stopping = self._wake.get(timeout=_EVERY_S)
            except queue.Empty:
                pass
            # Swapped, not locked: the loop's thread only ever appends.
            records, self._waiting = self._waiting, []
            if not records:
                continue
            self._write(records)
            if self._also is not None:
                self._also(records)

    def _write(self, records: Sequence[Record]) -> None:
        if self._stream is None:
            return
        lines: list[str] = []
        for record in records:
            lines.append(f"{_encode(line(record))}\n")
            if not len(lines) % _IN_A_ROW:
                # Else the loop's thread, whenever it wakes meanwhile, waits up to 5 ms for the interpreter's lock.
                time.sleep(_BREATH_S)
        if self._dropped:
            lines.append(f"{_encode({'dropped': self._dropped})}\n")
            self._dropped = 0
        try:
            self._stream.write("".join(lines))
            self._stream.flush()
        except (OSError, ValueError):
            # A full disk, or nobody there to read: serving goes on.
            return


def line(record: Record) -> dict[str, object]:
    """A record as the log shows it; times in milliseconds."""
    told: dict[str, object] = {
        "time": datetime.fromtimestamp(record.at, timezone.utc).isoformat(timespec="milliseconds"),
        "method": record.method,
        "path": record.path,
        "status": record.status,
        "ms": _ms(record.seconds),
        "bytes_in": record.received,
        "bytes_out": record.sent,
    }
    phases = record.phases
    if phases is not None and phases.taken:
        told["queue_ms"] = _ms(record.queue)
        told["decode_ms"] = _ms(phases.decode)
        if phases.batch_size:
            told["batch_ms"] = _ms(phases.batch)
            told["predict_ms"] = _ms(phases.predict)
            told["encode_ms"] = _ms(phases.encode)
            told["batch_size"] = phases.batch_size
    if record.model != "model":
        told["model"] = record.model
    if record.worker is not None:
        told["worker"] = record.worker
    if record.inference_id:
        told["inference_id"] = record.inference_id
    return told


def open_stream() -> TextIO:
    """Standard output, as it is now."""
    return sys.stdout


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)
