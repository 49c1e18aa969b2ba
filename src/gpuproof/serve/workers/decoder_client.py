"""The front's end of the reader: asks it for the numbers of large JSON bodies, and does without it where it is not there."""

from __future__ import annotations

import asyncio
import signal
import socket
import time
from collections.abc import Mapping, Sequence
from typing import Callable, cast

from gpuproof.serve import media_types
from gpuproof.serve.frontend.pending_request import Call
from gpuproof.serve.ipc import frames
from gpuproof.serve.ipc.frames import FrameReader
from gpuproof.serve.ipc.messages import Numbers, pack_sizes, read_sizes
from gpuproof.serve.ipc.shared_memory import BodyMemory
from gpuproof.serve.workers.spawner import Spawner

_MOST = 8 * 1024 * 1024
"""Bytes of a body: a larger one takes hundreds of megabytes while it is read."""
_AHEAD = 8
_BYTES_AHEAD = 8 * 1024 * 1024
"""So many bodies, and so many bytes beside the first, may be with it: predictors read the others themselves."""
_PATIENCE_S = 10.0
"""For one body: 8 MiB take 15 ms in rows of hundreds of numbers, and 1.6 s in rows of one."""
_STARTS = 3
_OPENING = ord("[")


class BodyReader:
    """The process is started with the first body that is for it, and again when it has ended, but not for ever.

    Args:
        spawner: starts it.
        command: how; one argument is added.
        environ: its environment.
        memory: where bodies lie.
        say: a line for the log.
    """

    def __init__(
        self,
        spawner: Spawner,
        command: Sequence[str],
        environ: Mapping[str, str],
        memory: BodyMemory,
        say: Callable[[str], None],
    ) -> None:
        self._spawner = spawner
        self._command = list(command)
        # It counts nothing: threads of numpy's would only be there.
        self._environ = {**environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        self._memory = memory
        self._say = say
        self._number = 0
        """As the spawner knows it: predictors count upwards."""
        self._starts = 0
        """In a row, without one body read."""
        self._link: _Link | None = None
        self._held: dict[int, list[memoryview]] = {}
        """What readers may still write to or read, until they have ended."""
        self._last_ended = 0
        self._over = False
        self._task: asyncio.Task[object] | None = None

    @property
    def ready(self) -> bool:
        """Whether a reader runs that has imported what it needs."""
        return self._link is not None and self._link.ready

    def read(self, call: Call, then: Callable[[Call], None]) -> bool:
        """Have a body's numbers read; false where it is none for the reader, or the reader has no time.

        Args:
            then: called with the call when it knows its numbers, or when nobody will read them.
        """
        body = call.exchange.body
        offset = self._memory.offset_of(body)
        if offset is None or len(body) > _MOST or body[0] != _OPENING:
            return False
        if not media_types.is_json(call.exchange.headers.get("content-type", "")):
            return False
        link = self._ready_for(len(body))
        # The shortest number is a digit and a comma, and four bytes in the array.
        view = None if link is None else self._memory.take(2 * len(body))
        to = self._memory.offset_of(view)
        if link is None or view is None or to is None:
            return False
        link.ask(call, view, (offset, len(body), to, len(view)), then)
        return True

    def look_after(self, now: float, went_on: float) -> bool:
        """End a reader that has been at one body for too long; whether it has any.

        Args:
            went_on: when the whole server last ran again after it had been stopped.
        """
        link = self._link
        if link is None or not link.asked:
            return False
        if now - max(link.since, went_on) > _PATIENCE_S:
            # Its socket says when it is dead.
            self._spawner.signal(self._number, signal.SIGKILL)
        return True

    def ended(self, number: int) -> None:
        """A process of this number has ended: what it had is free."""
        self._held.pop(number, None)
        self._last_ended = min(self._last_ended, number)

    def close(self) -> None:
        """End it."""
        self._over = True
        if self._link is not None:
            self._link.close()

    def _ready_for(self, size: int) -> _Link | None:
        link = self._link
        if link is None:
            if self._starts < _STARTS and not self._over:
                self._start()
            return None
        full = link.asked and (len(link.asked) >= _AHEAD or link.bytes + size > _BYTES_AHEAD)
        return link if self.ready and not full else None

    def _start(self) -> None:
        try:
            ours, theirs = socket.socketpair()
        except OSError:
            # No descriptors are left: predictors read.
            return
        self._starts += 1
        ours.setblocking(False)
        descriptors = {"channel": theirs.fileno(), "memory": self._memory.descriptor}
        self._number -= 1
        self._spawner.spawn(self._number, [*self._command, "{}"], self._environ, descriptors)
        theirs.close()
        link = self._link = _Link(self._has_read, self._cannot_read, self._lost)
        loop = asyncio.get_running_loop()
        self._task = loop.create_task(loop.create_connection(lambda: link, sock=ours))

    def _has_read(self) -> None:
        self._starts = 0

    def _cannot_read(self) -> None:
        self._over = True

    def _lost(self, views: list[memoryview]) -> None:
        self._link = None
        if self._number != self._last_ended:
            # However the socket was lost.
            self._spawner.signal(self._number, signal.SIGKILL)
            self._held[self._number] = views
        if not self._over:
            self._say("the reader of large bodies has ended; predictors read them themselves")


class _Link(asyncio.Protocol):
    """The socket to one reader."""

    def __init__(
        self,
        on_read: Callable[[], None],
        on_unable: Callable[[], None],
        on_lost: Callable[[list[memoryview]], None],
    ) -> None:
        self.ready = False
        self.since = 0.0
        """When it took up what it is at."""
        self.bytes = 0
        self.asked: dict[int, tuple[Call, memoryview, Callable[[Call], None]]] = {}
        self._on_read = on_read
        self._on_unable = on_unable
        self._on_lost = on_lost
        self._reader = FrameReader()
        self._transport: asyncio.WriteTransport | None = None

    def ask(
        self, call: Call, view: memoryview, where: tuple[int, int, int, int], then: Callable[[Call], None]
    ) -> None:
        assert self._transport is not None
        if not self.asked:
            self.since = time.monotonic()
        self.asked[call.number] = call, view, then
        self.bytes += len(call.exchange.body)
        told = pack_sizes(where)
        self._transport.write(frames.pack(frames.READ, call.number, b"", len(told)) + told)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclasses of asyncio's.
        self._transport = cast("asyncio.WriteTransport", transport)

    def data_received(self, data: bytes) -> None:
        for frame in self._reader.feed(data):
            if frame.kind == frames.LOADED:
                self.ready = True
            elif frame.kind == frames.FAILED:
                self._on_unable()
            else:
                self._has_read(frame)

    def _has_read(self, frame: frames.Frame) -> None:
        call, view, then = self.asked.pop(frame.id)
        self.since = time.monotonic()
        self.bytes -= len(call.exchange.body)
        if frame.fields:
            call.numbers = Numbers(view, read_sizes(frame.fields))
        self._on_read()
        then(call)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's own
        asked = list(self.asked.values())
        self.asked.clear()
        views: list[memoryview] = []
        for call, view, _ in asked:
            body = call.exchange.body
            views += [view, body] if isinstance(body, memoryview) else [view]
        self._on_lost(views)
        for call, _, then in asked:
            then(call)
