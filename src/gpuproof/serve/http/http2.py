"""Refuses HTTP/2 in a way that its clients show to their users: a response with status 505 (RFC 9113)."""

from __future__ import annotations

import struct

from gpuproof.serve.http.exchange import error_body

PREFACE = b"PRI * HTTP/2.0"
"""First line of a client that assumes HTTP/2 ("prior knowledge", RFC 9113, 3.4)."""
_REST = b"SM\r\n\r\n"
_DATA, _HEADERS, _SETTINGS, _GOAWAY = 0x0, 0x1, 0x4, 0x7
_END_STREAM, _END_HEADERS = 0x1, 0x4
_HTTP_1_1_REQUIRED = 0xD
_FRAME_HEAD = 9
_MOST = 64 * 1024
"""Bytes of a client's first request that are read."""


class Refusal:
    """The server's side of a connection that ends with the client's first request."""

    def __init__(self, message: str) -> None:
        self.done = False
        self._message = message
        self._buffer = b""
        self._missing = len(_REST)
        self._started = False

    def feed(self, data: bytes) -> bytes:
        """Take what the client sends after `PREFACE` and its empty line; returns what to send to it."""
        sent = b"" if self._started else _frame(_SETTINGS, 0, 0, b"")
        self._started = True
        self._buffer += data
        while not self.done and len(self._buffer) >= self._missing:
            self._buffer, self._missing = self._buffer[self._missing :], 0
            if len(self._buffer) < _FRAME_HEAD:
                break
            kind, stream = self._buffer[3], struct.unpack(">I", self._buffer[5:9])[0] & 0x7FFFFFFF
            if kind == _HEADERS:
                self.done = True
                return sent + self._response(stream)
            self._missing = _FRAME_HEAD + int.from_bytes(self._buffer[:3], "big")
        if len(self._buffer) > _MOST:
            self.done = True
            return sent + _go_away(0, self._message)
        return sent

    def _response(self, stream: int) -> bytes:
        body = error_body(self._message)
        # HPACK (RFC 7541): literal fields with names of the static table, 8 is `:status` and 31 `content-type`.
        fields = b"\x08\x03505" + b"\x0f\x10\x10application/json"
        head = _frame(_HEADERS, _END_HEADERS, stream, fields)
        return head + _frame(_DATA, _END_STREAM, stream, body) + _go_away(stream, self._message)


def _go_away(last_stream: int, text: str) -> bytes:
    return _frame(_GOAWAY, 0, 0, struct.pack(">II", last_stream, _HTTP_1_1_REQUIRED) + text.encode())


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload
