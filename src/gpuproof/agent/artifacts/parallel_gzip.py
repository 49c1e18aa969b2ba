"""Compresses with several threads, since a GPU host is billed while its model is packed.

One thread compresses float32 weights at some 35 MB/s. Blocks of a fixed size are compressed independently (zlib
releases the interpreter's lock) and joined to one deflate stream, as in pigz, so the bytes depend only on the content
and not on the number of threads. Formats: RFC 1951 and RFC 1952.
"""

from __future__ import annotations

import io
import os
import zlib
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import BinaryIO

_BLOCK_BYTES = 1 << 18
_MOST_THREADS = 8
# Magic number, deflate, no name and no time, "fastest algorithm", unknown system.
_HEADER = b"\x1f\x8b\x08\x00" + bytes(4) + b"\x04\xff"


class ParallelGzip(io.RawIOBase):
    """A writable file that compresses its content into one gzip member.

    Args:
        sink: receives the compressed bytes; it stays open.
        level: zlib's compression level, 0 to 9.
        threads: number of compressing threads; by default the number of cores, up to 8.
    """

    def __init__(self, sink: BinaryIO | io.RawIOBase, level: int, threads: int | None = None) -> None:
        super().__init__()
        threads = threads or min(_MOST_THREADS, os.cpu_count() or 1)
        self._sink = sink
        self._level = level
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="gzip")
        # Enough to keep every thread busy without holding more of the model in memory.
        self._most_waiting = 2 * threads
        self._waiting: deque[Future[bytes]] = deque()
        self._block = bytearray()
        self._checksum = 0
        self._size = 0
        self._sink.write(_HEADER)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.finish()
        for block in self._waiting:
            block.cancel()
        self._pool.shutdown()
        self.close()

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        """Number of bytes written, before compression."""
        return self._size

    def write(self, data: bytes) -> int:  # pyright: ignore[reportIncompatibleMethodOverride]
        self._checksum = zlib.crc32(data, self._checksum)
        self._size += len(data)
        self._block += data
        while len(self._block) >= _BLOCK_BYTES:
            self._submit(bytes(self._block[:_BLOCK_BYTES]), zlib.Z_SYNC_FLUSH)
            del self._block[:_BLOCK_BYTES]
        return len(data)

    def finish(self) -> None:
        """Write the rest and the checksum; without them, readers detect a truncated file."""
        self._submit(bytes(self._block), zlib.Z_FINISH)
        while self._waiting:
            self._sink.write(self._waiting.popleft().result())
        self._sink.write(self._checksum.to_bytes(4, "little") + (self._size % 2**32).to_bytes(4, "little"))

    def _submit(self, block: bytes, ending: int) -> None:
        self._waiting.append(self._pool.submit(_deflate, block, self._level, ending))
        if len(self._waiting) > self._most_waiting:
            self._sink.write(self._waiting.popleft().result())


def _deflate(block: bytes, level: int, ending: int) -> bytes:
    compressor = zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS)
    return compressor.compress(block) + compressor.flush(ending)
