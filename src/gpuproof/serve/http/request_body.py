"""Receives the body of a request: chunked, in pieces, or directly into its final location."""

from __future__ import annotations

import mmap

from gpuproof.serve.http.parser import ChunkedBody, HttpError
from gpuproof.serve.ipc.shared_memory import BodyMemory

LARGE = 64 * 1024
"""Bytes from which a body of known length is received directly into its final location."""


class IncomingBody:
    """A body that is being received.

    Args:
        length: the announced length in bytes; `None` for a chunked body.
        allowed: maximum size in bytes.
        memory: shared memory for a large body, used if it has room.
    """

    def __init__(self, length: int | None, allowed: int, memory: BodyMemory | None = None) -> None:
        self.received = 0
        """Bytes received so far, without the framing of chunks."""
        self._length = length
        self._allowed = allowed
        self._chunked = ChunkedBody() if length is None else None
        self._unread = b""
        self._pieces: list[bytes] = []
        self._whole: memoryview | None = None
        if length is not None and length >= LARGE:
            # Neither costs memory until it is filled: clients may announce large bodies and send nothing.
            self._whole = memory.take(length) if memory is not None else None
            if self._whole is None:
                self._whole = memoryview(mmap.mmap(-1, length, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))

    @property
    def buffer(self) -> memoryview | None:
        """The memory to receive the next bytes into; `None` if any buffer will do."""
        return None if self._whole is None else self._whole[self.received :]

    @property
    def done(self) -> bool:
        """Whether the body is complete."""
        return self._chunked.done if self._chunked is not None else self.received >= (self._length or 0)

    def received_in_place(self, count: int) -> None:
        """Account for `count` bytes that were received into `buffer`."""
        self.received += count

    def feed(self, data: bytes | memoryview) -> bytes:
        """Add bytes that were received elsewhere, and return those that follow the body.

        Raises:
            HttpError: 400 for malformed chunks, 413 for more than the limit; nothing was added.
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
        """The complete body."""
        if self._whole is not None:
            return self._whole
        return self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)

    def _feed_chunks(self, chunked: ChunkedBody, data: bytes) -> bytes:
        pieces, rest = chunked.feed(self._unread + data)
        if chunked.received > self._allowed:
            raise HttpError(413, f"the body is longer than the limit of {self._allowed} bytes")
        # Joined: a bytes object for a single byte takes 40 bytes.
        self._pieces.append(b"".join(pieces))
        self.received = chunked.received
        self._unread = b"" if chunked.done else rest
        return rest if chunked.done else b""
