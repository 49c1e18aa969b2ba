"""The front's end of the reader: asks it for the numbers of large JSON bodies, and does without it where it is not there."""

from __future__ import annotations

import asyncio
import signal
import socket
import time
from collections.abc import Mapping, Sequence
from typing import Callable, cast

from tarmac.serve import frames, media
from tarmac.serve.body_memory import SLOT, BodyMemory
from tarmac.serve.call import Call, Numbers
from tarmac.serve.frames import FrameReader
from tarmac.serve.keeper import Keeper
from tarmac.serve.wire import pack_sizes, read_sizes

_AHEAD = 8
"""So many bodies may be with it: predictors read the others themselves."""
_PATIENCE_S = 2.0
"""A body of 16 MiB takes it 30 ms."""
_STARTS = 3
_OPENING = ord("[")


class BodyReader:
    """The process is started with the first body that is for it, and again when it has ended, but not for ever.

    Args:
        keeper: starts it.
        command: how; one argument is added.
        environ: its environment.
        memory: where bodies lie.
        say: a line for the log.
    """

    def __init__(
        self,
        keeper: Keeper,
        command: Sequence[str],
        environ: Mapping[str, str],
        memory: BodyMemory,
        say: Callable[[str], None],
    ) -> None:
        self._keeper = keeper
        self._command = list(command)
        # It counts nothing: threads of numpy's would only be there.
        self._environ = {**environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        self._memory = memory
        self._say = say
        self._number = 0
        """As the keeper knows it: predictors count upwards."""
        self._starts = 0
        """In a row, without one body read."""
        self._link: _Link | None = None
        self._ending = False
        self._task: asyncio.Task[object] | None = None

    def read(self, call: Call, then: Callable[[Call], None]) -> bool:
        """Have a body's numbers read; false where it is none for the reader, or the reader has no time.

        Args:
            then: called with the call when it knows its numbers, or when nobody will read them.
        """
        body = call.exchange.body
        offset = self._memory.offset_of(body)
        if (
            offset is None
            or body[0] != _OPENING
            or not media.is_json(call.exchange.headers.get("content-type", ""))
        ):
            return False
        # The shortest number is a digit and a comma, and four bytes in the array.
        room = 2 * len(body)
        if room > SLOT or not self._ready():
            return False
        view = self._memory.take(room)
        if view is None:
            return False
        assert self._link is not None
        to = self._memory.offset_of(view)
        assert to is not None
        self._link.ask(call, view, (offset, len(body), to, room), then)
        return True

    def look_after(self, now: float) -> None:
        """End a reader that has been at one body for too long. What it may yet write to is free when it is dead."""
        if self._link is not None and now - self._link.oldest > _PATIENCE_S:
            self._keeper.signal(self._number, signal.SIGKILL)

    def close(self) -> None:
        """End it."""
        self._ending = True
        if self._link is not None:
            self._link.close()

    def _ready(self) -> bool:
        if self._link is None:
            if self._starts < _STARTS and not self._ending:
                self._start()
            return False
        return self._link.ready and len(self._link.asked) < _AHEAD

    def _start(self) -> None:
        self._starts += 1
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        descriptors = {"channel": theirs.fileno(), "memory": self._memory.descriptor}
        self._number -= 1
        self._keeper.spawn(self._number, [*self._command, "{}"], self._environ, descriptors)
        theirs.close()
        link = self._link = _Link(self._has_read, self._lost)
        loop = asyncio.get_running_loop()
        self._task = loop.create_task(loop.create_connection(lambda: link, sock=ours))

    def _has_read(self) -> None:
        self._starts = 0

    def _lost(self) -> None:
        self._link = None
        if not self._ending:
            self._say("the reader of large bodies has ended; predictors read them themselves")


class _Link(asyncio.Protocol):
    """The socket to one reader."""

    def __init__(self, on_read: Callable[[], None], on_lost: Callable[[], None]) -> None:
        self.ready = False
        self.asked: dict[int, tuple[Call, memoryview, Callable[[Call], None], float]] = {}
        self._on_read = on_read
        self._on_lost = on_lost
        self._reader = FrameReader()
        self._transport: asyncio.WriteTransport | None = None

    @property
    def oldest(self) -> float:
        """Since when it has been asked for what it has not read yet."""
        return next((since for *_, since in self.asked.values()), float("inf"))

    def ask(
        self, call: Call, view: memoryview, where: tuple[int, int, int, int], then: Callable[[Call], None]
    ) -> None:
        assert self._transport is not None
        self.asked[call.number] = call, view, then, time.monotonic()
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
                continue
            call, view, then, _ = self.asked.pop(frame.id)
            if frame.fields:
                call.numbers = Numbers(view, read_sizes(frame.fields))
            self._on_read()
            then(call)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's own
        self._on_lost()
        for call, _, then, _ in list(self.asked.values()):
            then(call)
        self.asked.clear()
