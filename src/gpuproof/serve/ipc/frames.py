"""Frames between the front and a predictor: length-prefixed, raw bytes, many to one write; nothing is pickled.

A frame is a header (`HEADER`), its fields and a body; what fields say is the matter of `wire`.
"""

from __future__ import annotations

import struct
from typing import NamedTuple, Union

HEADER = struct.Struct("<QIBQ")
"""Bytes of the body, bytes of the fields, kind, id of the request."""
_LARGE = 256 * 1024

# Front to predictor.
CALL = 1
"""A request. Fields: see `gpuproof.serve.ipc.messages`."""
CANCEL = 2
"""Nobody waits for this answer any more."""
CREDIT = 3
"""The client has read pieces of a streamed answer; fields: how many, in decimal."""
STOP = 4
"""Finish what has been taken, let go of the model, and end."""

SHARED = 5
"""A request whose body lies in the shared memory. Fields: as a CALL's; body: where, see `gpuproof.serve.ipc.messages`."""
READ = 6
"""To a reader: read the numbers of a body in the shared memory. Body: sizes, as `gpuproof.serve.ipc.messages` packs them: the body's offset and
length, and those of the room for its array."""

# Predictor to front.
LOADED = 16
"""The model is loaded; fields: JSON."""
FAILED = 17
"""The model cannot be loaded; fields: JSON. The predictor ends."""
ANSWER = 18
"""A whole answer."""
BEGIN = 19
"""A streamed answer begins; pieces follow."""
PIECE = 20
END = 21
BROKEN = 22
"""A streamed answer ends early: the handler failed."""
PLACED = 23
"""Where the model is after the first answers; fields: JSON."""
NUMBERS = 24
"""From a reader: what it has read. Fields: the array's shape, see `gpuproof.serve.ipc.messages`; none where there is no array."""

Buffer = Union[bytes, bytearray, memoryview]


class Frame(NamedTuple):
    """One frame as it was read; the body is a view into what was received."""

    kind: int
    id: int
    fields: bytes
    body: memoryview


def pack(kind: int, number: int, fields: bytes = b"", body_length: int = 0) -> bytes:
    """The beginning of a frame; its body follows as it is."""
    return HEADER.pack(body_length, len(fields), kind, number) + fields


class FrameReader:
    """Gives the frames of a stream of bytes, whatever pieces it comes in."""

    def __init__(self) -> None:
        self._rest: bytes = b""
        self._large: bytearray | None = None
        self._filled = 0

    def buffer(self, usual: memoryview) -> memoryview:
        """Where the next bytes are to be received: a large frame's own memory, or the usual one."""
        return usual if self._large is None else memoryview(self._large)[self._filled :]

    def received(self, usual: memoryview, count: int) -> list[Frame]:
        """The frames that so many bytes complete, which were received where `buffer` said."""
        return self.feed(bytes(usual[:count])) if self._large is None else self._fill(self._large, count)

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that these bytes complete; no large one may be on its way."""
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
                    # Filled in place: adding each piece to the last would copy a large body many times.
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
