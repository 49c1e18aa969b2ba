"""Access log: one JSON object per line on standard output, written by a separate thread."""

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

from gpuproof.serve.observability.request_record import RequestRecord

_FLUSH_INTERVAL_S = 0.25
_text = encode_basestring_ascii
_MAX_WAITING = 20_000
_Item = TypeVar("_Item")
_START = '{"time":"%s.%03d+00:00"%s"ms":%.3f,"bytes_in":%d,"bytes_out":%d'
_DECODED = ',"queue_ms":%.3f,"decode_ms":%.3f'
_PREDICTED = ',"batch_ms":%.3f,"predict_ms":%.3f,"encode_ms":%.3f,"batch_size":%d'


class AccessLog:
    """Writes records in a separate thread, so that a slow reader of standard output does not block the server.

    Lines are formatted where the records are created: in the writing thread, which competes for the interpreter lock,
    formatting takes three times as long.

    Args:
        stream: where to write; `None` to write nothing.
        on_records: called in the same thread with batches of records, for traces.
    """

    def __init__(
        self, stream: TextIO | None, on_records: Callable[[Sequence[RequestRecord]], None] | None = None
    ) -> None:
        self._stream = stream
        self._on_records = on_records
        self._lines: deque[str] = deque()
        self._records: deque[RequestRecord] = deque()
        self._dropped = 0
        self._wake: queue.Queue[bool] = queue.Queue()
        self._thread = threading.Thread(target=self._run, name="gpuproof-access-log", daemon=True)

    def start(self) -> None:
        """Start the writing thread."""
        self._thread.start()

    def add(self, record: RequestRecord) -> None:
        """Add a record. Records are dropped and counted if too many wait to be written."""
        if len(self._lines) >= _MAX_WAITING or len(self._records) >= _MAX_WAITING:
            self._dropped += 1
            return
        if self._stream is not None:
            self._lines.append(format_line(record))
        if self._on_records is not None:
            self._records.append(record)

    def stop(self, timeout_s: float = 2.0) -> None:
        """Write the remaining records."""
        self._wake.put(True)
        self._thread.join(timeout_s)

    def _run(self) -> None:
        stopping = False
        while not stopping:
            try:
                stopping = self._wake.get(timeout=_FLUSH_INTERVAL_S)
            except queue.Empty:
                pass
            lines, records = _drain(self._lines), _drain(self._records)
            if lines and self._stream is not None:
                self._write(self._stream, lines)
            if records and self._on_records is not None:
                self._on_records(records)

    def _write(self, stream: TextIO, lines: list[str]) -> None:
        if self._dropped:
            lines.append(f'{{"dropped":{self._dropped}}}\n')
            self._dropped = 0
        try:
            stream.write("".join(lines))
            stream.flush()
        except (OSError, ValueError):
            # A full disk or a closed pipe must not stop the server.
            return


def _drain(waiting: deque[_Item]) -> list[_Item]:
    """Remove and return all items; the event loop's thread may append concurrently."""
    return [waiting.popleft() for _ in range(len(waiting))]


def format_line(record: RequestRecord) -> str:
    """Format a record as a line with a JSON object; times are in milliseconds."""
    at, method, path, status, seconds, received, sent, model, worker, queue, phases, inference_id, _ = record
    # Formatted with %: json.dumps takes three times as long, and an f-string a third longer.
    text = _START % (
        _timestamp(int(at)),
        int(at % 1 * 1000),
        _common_part(method, path, status),
        seconds * 1000,
        received,
        sent,
    )
    if phases is not None and phases.taken:
        _, decode, batch, predict, encode, batch_size = phases
        text += _DECODED % (queue * 1000, decode * 1000)
        if batch_size:
            text += _PREDICTED % (batch * 1000, predict * 1000, encode * 1000, batch_size)
    if model != "model":
        text += f',"model":{_text(model)}'
    if worker is not None:
        text += f',"worker":{worker}'
    if inference_id:
        text += f',"inference_id":{_text(inference_id)}'
    return text + "}\n"


def open_stream() -> TextIO:
    """The stream of the access log: standard output."""
    return sys.stdout


@lru_cache(maxsize=4)
def _timestamp(second: int) -> str:
    """Format a second since the epoch, in UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))


@lru_cache(maxsize=64)
def _common_part(method: str, path: str, status: int) -> str:
    """The part of a line that is the same for most requests."""
    return f',"method":{_text(method)},"path":{_text(path)},"status":{status},'
