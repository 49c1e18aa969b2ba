"""The access log: one JSON object a line on standard output, written by a thread of its own."""

from __future__ import annotations

import queue
import sys
import threading
import time
from collections.abc import Sequence
from functools import lru_cache
from json.encoder import encode_basestring_ascii
from typing import Callable, TextIO

from tarmac.serve.records import Record

_EVERY_S = 0.25
_IN_A_ROW = 32
"""Lines made at a time: 0.2 ms of the interpreter's lock."""
_BREATH_S = 0.0001
_text = encode_basestring_ascii
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
            lines.append(f"{line(record)}\n")
            if not len(lines) % _IN_A_ROW:
                # Else the loop's thread, whenever it wakes meanwhile, waits up to 5 ms for the interpreter's lock.
                time.sleep(_BREATH_S)
        if self._dropped:
            lines.append(f'{{"dropped":{self._dropped}}}\n')
            self._dropped = 0
        try:
            self._stream.write("".join(lines))
            self._stream.flush()
        except (OSError, ValueError):
            # A full disk, or nobody there to read: serving goes on.
            return


def line(record: Record) -> str:
    """A record as the log shows it, a JSON object; times in milliseconds."""
    # One text with numbers set in: a dictionary and json.dumps take three times as long.
    told = (
        f'"time":"{_second(int(record.at))}.{int(record.at % 1 * 1000):03d}+00:00"'
        f',"method":{_text(record.method)},"path":{_text(record.path)},"status":{record.status}'
        f',"ms":{record.seconds * 1000:.3f},"bytes_in":{record.received},"bytes_out":{record.sent}'
    )
    phases = record.phases
    if phases is not None and phases.taken:
        told += f',"queue_ms":{record.queue * 1000:.3f},"decode_ms":{phases.decode * 1000:.3f}'
        if phases.batch_size:
            told += (
                f',"batch_ms":{phases.batch * 1000:.3f},"predict_ms":{phases.predict * 1000:.3f}'
                f',"encode_ms":{phases.encode * 1000:.3f},"batch_size":{phases.batch_size}'
            )
    if record.model != "model":
        told += f',"model":{_text(record.model)}'
    if record.worker is not None:
        told += f',"worker":{record.worker}'
    if record.inference_id:
        told += f',"inference_id":{_text(record.inference_id)}'
    return f"{{{told}}}"


def open_stream() -> TextIO:
    """Standard output, as it is now."""
    return sys.stdout


@lru_cache(maxsize=4)
def _second(second: int) -> str:
    """A second since the epoch, in UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
