"""Refuses HTTP/2 in a way that its clients report: with an error code and a text (RFC 9113)."""

from __future__ import annotations

import struct

PREFACE = b"PRI * HTTP/2.0"
"""First line of a client that assumes HTTP/2 ("prior knowledge", RFC 9113, 3.3)."""
_SETTINGS, _GOAWAY = 0x4, 0x7
_HTTP_1_1_REQUIRED = 0xD


def refusal(text: str) -> bytes:
    """The frames SETTINGS, which must come first, and GOAWAY with the error HTTP_1_1_REQUIRED."""
    return _frame(_SETTINGS, b"") + _frame(_GOAWAY, struct.pack(">II", 0, _HTTP_1_1_REQUIRED) + text.encode())


def _frame(kind: int, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, 0, 0) + payload
