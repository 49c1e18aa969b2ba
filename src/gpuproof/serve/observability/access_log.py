"""The access log: one JSON object a line on standard output, written by a thread of its own."""

from __future__ import annotations

import queue
import sys
import threading
import time
from collections import deque
from collections.abc import Sequence
from functools import lru_cache
from json.encoder import encode_basestring_ascii
from typing import Callable, TextIO, TypeVar

from gpuproof.serve.observability.request_record import Record

_EVERY_S = 0.25
_text = encode_basestring_ascii
_MOST_WAITING = 20_000
_Item = TypeVar("_Item")
_BEGINNING = '{"time":"%s.%03d+00:00"%s"ms":%.3f,"bytes_in":%d,"bytes_out":%d'
_DECODED = ',"queue_ms":%.3f,"decode_ms":%.3f'
_PREDICTED = ',"batch_ms":%.3f,"predict_ms":%.3f,"encode_ms":%.3f,"batch_size":%d'


class AccessLog:
    """Writes records a moment after they were made: whoever reads standard output slowly slows nobody down.

    A line is made where its record is: made in the writing thread, which then fights with the loop's for the
    interpreter's lock, it costs three times as much.

    Args:
        stream: where to write; `None` writes nothing.
        also: told each bundle of records in the same thread, for traces.
    """

    def __init__(self, stream: TextIO | None, also: Callable[[Sequence[Record]], None] | None = None) -> None:
        self._stream = stream
        self._also = also
        self._lines: deque[str] = deque()
        self._records: deque[Record] = deque()
        self._dropped = 0
        self._wake: queue.Queue[bool] = queue.Queue()
        self._thread = threading.Thread(target=self._run, name="gpuproof-access-log", daemon=True)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def add(self, record: Record) -> None:
        """Remember a record; dropped, and counted, when nobody reads what is written."""
        if len(self._lines) >= _MOST_WAITING or len(self._records) >= _MOST_WAITING:
            self._dropped += 1
            return
        if self._stream is not None:
            self._lines.append(line(record))
        if self._also is not None:
            self._records.append(record)

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
            lines, records = _taken(self._lines), _taken(self._records)
            if lines and self._stream is not None:
                self._write(self._stream, lines)
            if records and self._also is not None:
                self._also(records)

    def _write(self, stream: TextIO, lines: list[str]) -> None:
        if self._dropped:
            lines.append(f'{{"dropped":{self._dropped}}}\n')
            self._dropped = 0
        try:
            stream.write("".join(lines))
            stream.flush()
        except (OSError, ValueError):
            # A full disk, or nobody there to read: serving goes on.
            return


def _taken(waiting: deque[_Item]) -> list[_Item]:
    """What is there by now; the loop's thread may append meanwhile."""
    return [waiting.popleft() for _ in range(len(waiting))]


def line(record: Record) -> str:
    """A record as the log shows it, a JSON object with the end of its line; times in milliseconds."""
    at, method, path, status, seconds, received, sent, model, worker, queue, phases, inference_id, _ = record
    # Numbers set into a text: a dictionary and json.dumps take three times as long, and an f-string a third more.
    told = _BEGINNING % (
        _second(int(at)),
        int(at % 1 * 1000),
        _asked(method, path, status),
        seconds * 1000,
        received,
        sent,
    )
    if phases is not None and phases.taken:
        _, decode, batch, predict, encode, batch_size = phases
        told += _DECODED % (queue * 1000, decode * 1000)
        if batch_size:
            told += _PREDICTED % (batch * 1000, predict * 1000, encode * 1000, batch_size)
    if model != "model":
        told += f',"model":{_text(model)}'
    if worker is not None:
        told += f',"worker":{worker}'
    if inference_id:
        told += f',"inference_id":{_text(inference_id)}'
    return told + "}\n"


def open_stream() -> TextIO:
    """Standard output, as it is now."""
    return sys.stdout


@lru_cache(maxsize=4)
def _second(second: int) -> str:
    """A second since the epoch, in UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))


@lru_cache(maxsize=64)
def _asked(method: str, path: str, status: int) -> str:
    """What most lines have in common."""
    return f',"method":{_text(method)},"path":{_text(path)},"status":{status},'
