"""Frames between the frontend and its workers: length-prefixed raw bytes, several per write, no pickles.

A frame consists of a header (`HEADER`), fields and a body. Module `messages` defines the contents of the fields.
"""

from __future__ import annotations

import struct
from typing import NamedTuple, Union

HEADER = struct.Struct("<QIBQ")
"""Length of the body, length of the fields, kind, id of the request."""
_LARGE = 256 * 1024

# Frontend to worker.
REQUEST = 1
"""A request. Fields: `messages.request_fields`."""
CANCEL = 2
"""The response is no longer needed."""
CREDIT = 3
"""The client has read pieces of a streamed response. Fields: their number, in decimal."""
STOP = 4
"""Complete the requests in progress, unload the model, and exit."""
SHARED_REQUEST = 5
"""A request with a body in shared memory. Fields: as for REQUEST; body: `messages.SharedBody`."""
DECODE = 6
"""To the decoder: decode a body in shared memory. Body: `messages.pack_sizes` of the body's offset and length, and of
the offset and capacity for its array."""

# Worker to frontend.
LOADED = 16
"""The model is loaded. Fields: `messages.LoadedMessage` as JSON."""
LOAD_FAILED = 17
"""The model cannot be loaded; the worker exits. Fields: `messages.LoadFailedMessage` as JSON."""
RESPONSE = 18
"""A complete response. Fields: `messages.response_fields`."""
STREAM_START = 19
"""A streamed response starts. Fields: as for RESPONSE."""
STREAM_PIECE = 20
STREAM_END = 21
STREAM_BROKEN = 22
"""A streamed response ends early because the handler failed."""
DEVICE_CHECKED = 23
"""The device of the model after the first responses. Fields: `messages.DeviceMessage` as JSON."""
DECODED = 24
"""From the decoder: a body is decoded. Fields: `messages.pack_sizes` of the array's shape; empty if there is no array."""

Buffer = Union[bytes, bytearray, memoryview]


class Frame(NamedTuple):
    """A received frame. The body is a view into the receive buffer."""

    kind: int
    id: int
    fields: bytes
    body: memoryview


def pack(kind: int, number: int, fields: bytes = b"", body_length: int = 0) -> bytes:
    """Pack the header and fields of a frame; the body must be sent after it."""
    return HEADER.pack(body_length, len(fields), kind, number) + fields


class FrameReader:
    """Incremental parser for a stream of frames."""

    def __init__(self) -> None:
        self._rest: bytes = b""
        self._large: bytearray | None = None
        self._filled = 0

    def buffer(self, usual: memoryview) -> memoryview:
        """The buffer for the next bytes: the memory of a large frame, or else the usual buffer."""
        return usual if self._large is None else memoryview(self._large)[self._filled :]

    def received(self, usual: memoryview, count: int) -> list[Frame]:
        """Return the frames completed by `count` bytes that were received into `buffer`."""
        return self.feed(bytes(usual[:count])) if self._large is None else self._fill(self._large, count)

    def feed(self, data: bytes) -> list[Frame]:
        """Return the frames completed by these bytes. Must not be called while a large frame is being received."""
        frames: list[Frame] = []
        if self._rest:
            data = self._rest + data
        self._rest = self._read(data, frames)
        return frames

    def _fill(self, large: bytearray, count: int) -> list[Frame]:
        self._filled += count
        if self._filled < len(large):
            return []
        self._large = None
        return [_frame(large, memoryview(large), 0, *HEADER.unpack_from(large))]

    def _read(self, data: bytes, frames: list[Frame]) -> bytes:
        view = memoryview(data)
        at, size = 0, len(data)
        while size - at >= HEADER.size:
            header = HEADER.unpack_from(data, at)
            whole = HEADER.size + header[0] + header[1]
            if at + whole > size:
                if whole > _LARGE:
                    # Filled in place: concatenating the pieces would copy a large body many times.
                    self._large = bytearray(whole)
                    self._filled = size - at
                    self._large[: self._filled] = view[at:]
                    return b""
                break
            frames.append(_frame(data, view, at, *header))
            at += whole
        return data[at:]


def _frame(
    data: bytes | bytearray,
    view: memoryview,
    at: int,
    body_length: int,
    fields_length: int,
    kind: int,
    number: int,
) -> Frame:
    fields_at = at + HEADER.size
    body_at = fields_at + fields_length
    return Frame(kind, number, bytes(data[fields_at:body_at]), view[body_at : body_at + body_length])
