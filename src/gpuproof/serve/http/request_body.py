"""The body of a request while it is being received: in chunks, in pieces, or where it stays."""

from __future__ import annotations

import mmap

from gpuproof.serve.http.parser import ChunkedBody, HttpError
from gpuproof.serve.ipc.shared_memory import BodyMemory

LARGE = 64 * 1024
"""Bytes from which on a body of known length is received where it stays."""


class IncomingBody:
    """A body that is not whole yet.

    Args:
        length: the announced length; `None` where it comes in chunks.
        allowed: bytes that it may have.
        memory: where a large body stays, if there is room.
    """

    def __init__(self, length: int | None, allowed: int, memory: BodyMemory | None = None) -> None:
        self.received = 0
        """Bytes so far, without what frames the chunks."""
        self._length = length
        self._allowed = allowed
        self._chunked = ChunkedBody() if length is None else None
        self._unread = b""
        self._pieces: list[bytes] = []
        self._whole: memoryview | None = None
        if length is not None and length >= LARGE:
            # Either costs nothing until it is filled: many clients may announce much and send nothing.
            self._whole = memory.take(length) if memory is not None else None
            if self._whole is None:
                self._whole = memoryview(mmap.mmap(-1, length, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))

    @property
    def place(self) -> memoryview | None:
        """Where the next bytes are to be received; `None` where that makes no difference."""
        return None if self._whole is None else self._whole[self.received :]

    @property
    def done(self) -> bool:
        """Whether it is whole."""
        return self._chunked.done if self._chunked is not None else self.received >= (self._length or 0)

    def filled(self, count: int) -> None:
        """So many bytes were received at `place`."""
        self.received += count

    def feed(self, data: bytes | memoryview) -> bytes:
        """Take in what was received elsewhere; gives what follows the body.

        Raises:
            HttpError: 400 for malformed chunks, 413 for more than is allowed; nothing was taken in.
        """
        if self._chunked is not None:
            return self._feed_chunks(self._chunked, bytes(data))
        missing = (self._length or 0) - self.received
        piece = data[:missing]
        if self._whole is not None:
            self._whole[self.received : self.received + len(piece)] = piece
        else:
            self._pieces.append(bytes(piece))
        self.received += len(piece)
        return bytes(data[missing:])

    def content(self) -> bytes | memoryview:
        """All of it, when it is done."""
        if self._whole is not None:
            return self._whole
        return self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)

    def _feed_chunks(self, chunked: ChunkedBody, data: bytes) -> bytes:
        pieces, rest = chunked.feed(self._unread + data)
        if chunked.received > self._allowed:
            raise HttpError(413, f"the body has more than {self._allowed} bytes")
        # One piece for all: a byte in a piece of its own takes 40.
        self._pieces.append(b"".join(pieces))
        self.received = chunked.received
        self._unread = b"" if chunked.done else rest
        return rest if chunked.done else b""
