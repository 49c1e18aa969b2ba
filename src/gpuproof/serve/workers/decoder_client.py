"""The frontend's connection to the decoder process, which decodes large JSON bodies of numbers while workers are busy."""

from __future__ import annotations

import asyncio
import signal
import socket
import time
from collections.abc import Mapping, Sequence
from typing import Callable, cast

from gpuproof.serve import media_types
from gpuproof.serve.interface import DecodedArray
from gpuproof.serve.ipc import frames
from gpuproof.serve.ipc.frames import FrameReader
from gpuproof.serve.ipc.messages import pack_sizes, read_sizes
from gpuproof.serve.ipc.shared_memory import BodyMemory
from gpuproof.serve.workers.pending_request import PendingRequest
from gpuproof.serve.workers.spawner import Spawner

_MAX_BODY = 8 * 1024 * 1024
"""Bytes of a body: decoding a larger one takes hundreds of megabytes."""
_MAX_PENDING = 8
_MAX_PENDING_BYTES = 8 * 1024 * 1024
"""Bytes of all bodies after the first that the decoder may have; workers decode further ones themselves."""
_TIMEOUT_S = 10.0
"""For one body: 8 MiB take 15 ms in rows of hundreds of numbers, and 1.6 s in rows of one."""
_MAX_STARTS = 3
_OPENING = ord("[")

OnDecoded = Callable[[PendingRequest], None]


class DecoderClient:
    """The connection to the decoder process.

    The process is started with the first suitable body. It is restarted when it has ended, but not after several
    starts in a row without a decoded body.

    Args:
        spawner: starts it.
    """

    def __init__(
        self,
        spawner: Spawner,
        command: Sequence[str],
        environ: Mapping[str, str],
        memory: BodyMemory,
        log: Callable[[str], None],
    ) -> None:
        self._spawner = spawner
        self._command = list(command)
        # The decoder does no linear algebra: numpy's threads would be idle.
        self._environ = {**environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        self._memory = memory
        self._log = log
        self._number = 0
        """Its number at the spawner, counted downwards; workers count upwards."""
        self._starts = 0
        """Starts in a row without a decoded body."""
        self._connection: _Connection | None = None
        self._held: dict[int, list[memoryview]] = {}
        """Memory that a decoder may still access until its process has ended, by decoder number."""
        self._last_ended = 0
        self._closed = False
        self._task: asyncio.Task[object] | None = None

    @property
    def ready(self) -> bool:
        """Whether a decoder process runs and has imported what it needs."""
        return self._connection is not None and self._connection.ready

    def decode(self, request: PendingRequest, on_decoded: OnDecoded) -> bool:
        """Have a body decoded. Returns false if the body is not suitable or the decoder has no capacity.

        Args:
            on_decoded: called with the request once it has its array, or once it is known that it gets none.
        """
        body = request.exchange.body
        offset = self._memory.offset_of(body)
        if offset is None or len(body) > _MAX_BODY or body[0] != _OPENING:
            return False
        if not media_types.is_json(request.exchange.headers.get("content-type", "")):
            return False
        connection = self._available(len(body))
        # The shortest number is a digit and a comma; it takes four bytes in the array.
        view = None if connection is None else self._memory.take(2 * len(body))
        target = self._memory.offset_of(view)
        if connection is None or view is None or target is None:
            return False
        connection.send(request, view, (offset, len(body), target, len(view)), on_decoded)
        return True

    def check(self, now: float, resumed_at: float) -> bool:
        """Kill a decoder that exceeds its timeout. Returns whether the decoder is busy.

        Args:
            now: on `time.monotonic`'s clock.
            resumed_at: when the server last resumed after it had been suspended.
        """
        connection = self._connection
        if connection is None or not connection.pending:
            return False
        if now - max(connection.since, resumed_at) > _TIMEOUT_S:
            # Its socket closes when it is dead.
            self._spawner.signal(self._number, signal.SIGKILL)
        return True

    def on_exit(self, number: int) -> None:
        """Release the memory of a decoder process that has ended; numbers of other processes are ignored."""
        self._held.pop(number, None)
        self._last_ended = min(self._last_ended, number)

    def close(self) -> None:
        """End the decoder process."""
        self._closed = True
        if self._connection is not None:
            self._connection.close()

    def _available(self, size: int) -> _Connection | None:
        connection = self._connection
        if connection is None:
            if self._starts < _MAX_STARTS and not self._closed:
                self._start()
            return None
        full = connection.pending and (
            len(connection.pending) >= _MAX_PENDING or connection.bytes + size > _MAX_PENDING_BYTES
        )
        return connection if self.ready and not full else None

    def _start(self) -> None:
        try:
            ours, theirs = socket.socketpair()
        except OSError:
            # Out of file descriptors: workers decode.
            return
        self._starts += 1
        ours.setblocking(False)
        descriptors = {"channel": theirs.fileno(), "memory": self._memory.descriptor}
        self._number -= 1
        self._spawner.spawn(self._number, [*self._command, "{}"], self._environ, descriptors)
        theirs.close()
        connection = self._connection = _Connection(self._on_decoded, self._on_unavailable, self._on_lost)
        loop = asyncio.get_running_loop()
        self._task = loop.create_task(loop.create_connection(lambda: connection, sock=ours))

    def _on_decoded(self) -> None:
        self._starts = 0

    def _on_unavailable(self) -> None:
        self._closed = True

    def _on_lost(self, views: list[memoryview]) -> None:
        self._connection = None
        if self._number != self._last_ended:
            # The socket may be closed while the process lives.
            self._spawner.signal(self._number, signal.SIGKILL)
            self._held[self._number] = views
        if not self._closed:
            self._log("the decoder of large bodies has ended; workers decode them themselves")


class _Connection(asyncio.Protocol):
    """The socket to one decoder process."""

    def __init__(
        self,
        on_decoded: Callable[[], None],
        on_unavailable: Callable[[], None],
        on_lost: Callable[[list[memoryview]], None],
    ) -> None:
        self.ready = False
        self.since = 0.0
        """When it started with the present body."""
        self.bytes = 0
        self.pending: dict[int, tuple[PendingRequest, memoryview, OnDecoded]] = {}
        self._on_decoded = on_decoded
        self._on_unavailable = on_unavailable
        self._on_lost = on_lost
        self._reader = FrameReader()
        self._transport: asyncio.WriteTransport | None = None

    def send(
        self,
        request: PendingRequest,
        view: memoryview,
        sizes: tuple[int, int, int, int],
        on_decoded: OnDecoded,
    ) -> None:
        assert self._transport is not None
        if not self.pending:
            self.since = time.monotonic()
        self.pending[request.number] = request, view, on_decoded
        self.bytes += len(request.exchange.body)
        packed = pack_sizes(sizes)
        self._transport.write(frames.pack(frames.DECODE, request.number, b"", len(packed)) + packed)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not subclasses of asyncio's.
        self._transport = cast("asyncio.WriteTransport", transport)

    def data_received(self, data: bytes) -> None:
        for frame in self._reader.feed(data):
            if frame.kind == frames.LOADED:
                self.ready = True
            elif frame.kind == frames.LOAD_FAILED:
                self._on_unavailable()
            else:
                self._complete(frame)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        pending = list(self.pending.values())
        self.pending.clear()
        views: list[memoryview] = []
        for request, view, _ in pending:
            body = request.exchange.body
            views += [view, body] if isinstance(body, memoryview) else [view]
        self._on_lost(views)
        for request, _, on_decoded in pending:
            on_decoded(request)

    def _complete(self, frame: frames.Frame) -> None:
        request, view, on_decoded = self.pending.pop(frame.id)
        self.since = time.monotonic()
        self.bytes -= len(request.exchange.body)
        if frame.fields:
            request.decoded = DecodedArray(view, read_sizes(frame.fields))
        self._on_decoded()
        on_decoded(request)
