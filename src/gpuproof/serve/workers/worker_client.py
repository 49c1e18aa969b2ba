"""The front's end of one predictor: writes requests to its socket, reads its answers, knows what it is at."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from typing import Any, Callable, cast

from gpuproof.serve.frontend.pending_request import JSON, Call, error_body
from gpuproof.serve.ipc import frames
from gpuproof.serve.ipc.frames import FrameReader
from gpuproof.serve.ipc.messages import INFERENCE_ID, Place, pack_place, read_answer
from gpuproof.serve.ipc.shared_memory import BodyMemory
from gpuproof.serve.workers.shared_status import Board

_QUICK_S = 0.005
"""Below this, the way to the front and back is worth sending a second batch ahead."""
_SMOOTHING = 0.2
_ARRIVING = 256 * 1024
_STREAMS_BESIDE = 64
"""So many streamed answers take no other request's place."""
_LARGE = 128 * 1024
"""From here on one write costs less than one more copy."""


class Worker(asyncio.BufferedProtocol):
    """One predictor.

    Args:
        number: its number; never used again.
        slot: which of its pool's places it fills.
        board: what it shows.
        timeout_s: how long a streamed answer may pause.
        on_loaded: told what the predictor said of its model.
        on_failed: told why it cannot be loaded.
        on_answer: called after answers have come or begun, and there may be room for more.
        on_placed: told where the model is after the first answers, if it was not on its device before.
        on_lost: called when its socket is closed at the other end, however alive the process is.
        memory: where large bodies may lie, if the predictor sees it too.
    """

    def __init__(
        self,
        number: int,
        slot: int,
        board: Board,
        timeout_s: float,
        on_loaded: Callable[[Worker, dict[str, Any]], None],
        on_failed: Callable[[Worker, dict[str, Any]], None],
        on_answer: Callable[[Worker], None],
        on_placed: Callable[[Worker, dict[str, Any]], None],
        on_lost: Callable[[Worker], None],
        memory: BodyMemory | None = None,
    ) -> None:
        self.number = number
        self.slot = slot
        self.board = board
        self.pid = 0
        self.calls: dict[int, Call] = {}
        self._streams: set[int] = set()
        """Those of the calls whose answers have begun."""
        self.ready = False
        self.loaded = False
        """Whether it has ever been ready."""
        self.retiring = False
        self.answered = 0
        """How many requests it has answered, with whatever status."""
        self.seconds = 0.0
        """What a batch took lately, from decoding to encoding; a moving mean."""
        self.most = 1
        self.takes_numbers = False
        """Whether somebody else may read the numbers of a JSON body for it."""
        self._timeout = timeout_s
        self._memory = memory
        self._sequence = 0
        self._reader = FrameReader()
        self._arriving = memoryview(bytearray(_ARRIVING))
        self._transport: asyncio.WriteTransport | None = None
        self._on_loaded = on_loaded
        self._on_failed = on_failed
        self._on_answer = on_answer
        self._on_placed = on_placed
        self._on_lost = on_lost

    @property
    def window(self) -> int:
        """How many requests may be with it at a time."""
        return self.most * 2 if self.seconds < _QUICK_S else self.most

    @property
    def at_work(self) -> int:
        """How many requests are with it; a streamed answer leaves it time for others between its pieces."""
        return len(self.calls) - min(len(self._streams), _STREAMS_BESIDE)

    def send(self, calls: Sequence[Call], now: float) -> None:
        """Hand requests over, in one write."""
        parts: list[Any] = []
        for call in calls:
            self._sequence += 1
            call.sequence = self._sequence
            call.worker = self.number
            call.sent = now
            self.calls[call.number] = call
            body, kind = call.exchange.body, frames.CALL
            # Small ones are bytes.
            if isinstance(body, memoryview) and (place := self._place(call)) is not None:
                body, kind = pack_place(place), frames.SHARED
            parts.append(frames.pack(kind, call.number, call.fields, len(body)))
            parts.append(body)
        self._write(parts)

    def _place(self, call: Call) -> Place | None:
        """Where a body lies in the shared memory, which stays the call's until the predictor has answered."""
        memory, body, numbers = self._memory, call.exchange.body, call.numbers
        offset = None if memory is None else memory.offset_of(body)
        if memory is None or offset is None:
            return None
        read = None if numbers is None else memory.offset_of(numbers.data)
        if numbers is None or read is None:
            return Place(offset, len(body))
        return Place(offset, len(body), read, numbers.shape)

    def cancel(self, call: Call) -> None:
        """Nobody waits for this one any more; its place is free when the predictor has come past it."""
        self._write([frames.pack(frames.CANCEL, call.number)])

    def credit(self, call: Call, pieces: int) -> None:
        """The client has taken pieces of a streamed answer."""
        self._write([frames.pack(frames.CREDIT, call.number, b"%d" % pieces)])

    def stop(self) -> None:
        """Ask it to end."""
        self._write([frames.pack(frames.STOP, 0)])

    def close(self) -> None:
        """Close the socket: the predictor ends as soon as it notices."""
        if self._transport is not None:
            self._transport.close()

    def was_at(self, call: Call) -> bool:
        """Whether the predictor had taken this request up, rather than left it waiting in its socket."""
        return call.sequence <= self.board.taken

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclasses of asyncio's.
        self._transport = cast("asyncio.WriteTransport", transport)
        self._transport.set_write_buffer_limits(high=(1 << 31) - 1)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's own
        self._on_lost(self)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's own
        return self._reader.buffer(self._arriving)

    def buffer_updated(self, nbytes: int) -> None:
        before = self.answered, len(self._streams)
        for frame in self._reader.received(self._arriving, nbytes):
            self._obey(frame)
        if (self.answered, len(self._streams)) != before:
            self._on_answer(self)

    def _write(self, parts: list[Any]) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        if len(parts) > 1 and sum(map(len, parts)) < _LARGE:
            parts = [b"".join(parts)]
        for part in parts:
            self._transport.write(part)

    def _obey(self, frame: frames.Frame) -> None:
        if frame.kind == frames.ANSWER:
            call = self.calls.pop(frame.id, None)
            if call is not None:
                self._answer(call, frame)
        elif frame.kind == frames.LOADED:
            self._loaded(json.loads(frame.fields))
        elif frame.kind == frames.FAILED:
            self._on_failed(self, json.loads(frame.fields))
        elif frame.kind == frames.PLACED:
            self._on_placed(self, json.loads(frame.fields))
        else:
            self._obey_of_stream(frame)

    def _obey_of_stream(self, frame: frames.Frame) -> None:
        call = self.calls.get(frame.id)
        if call is None:
            return
        if frame.kind == frames.BEGIN:
            self._streams.add(frame.id)
            self._begin(call, frame)
        elif frame.kind == frames.PIECE:
            if not call.done:
                call.deadline = time.monotonic() + self._timeout
                call.exchange.piece(frame.body)
        else:
            del self.calls[frame.id]
            self._streams.discard(frame.id)
            self.answered += 1
            if frame.kind == frames.BROKEN:
                call.refuse(500, "")
            elif not call.done:
                call.exchange.end()
                call.finish()

    def _loaded(self, told: dict[str, Any]) -> None:
        self.ready = self.loaded = True
        self.most = int(told["max_batch_size"]) if told["batching"] else 1
        self.takes_numbers = bool(told.get("takes_numbers"))
        self._on_loaded(self, told)

    def _answer(self, call: Call, frame: frames.Frame) -> None:
        status, phases, headers = read_answer(frame.fields)
        call.phases = phases
        self.answered += 1
        took = phases.decode + phases.predict + phases.encode
        self.seconds += _SMOOTHING * (took - self.seconds)
        if status >= 400 and not headers:
            message = str(frame.body, "utf-8", "replace")
            call.answer(status, _with_id(call, JSON), error_body(message))
        else:
            call.answer(status, _with_id(call, headers), frame.body)

    def _begin(self, call: Call, frame: frames.Frame) -> None:
        if call.done:
            return
        status, call.phases, headers = read_answer(frame.fields)
        call.streaming = True
        call.exchange.on_read = lambda pieces: self.credit(call, pieces)
        call.exchange.begin(status, _with_id(call, headers))


def _with_id(call: Call, headers: Sequence[tuple[str, str]]) -> Sequence[tuple[str, str]]:
    inference_id = call.exchange.headers.get(INFERENCE_ID)
    return (*headers, (INFERENCE_ID, inference_id)) if inference_id else headers
