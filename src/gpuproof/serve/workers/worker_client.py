"""The frontend's connection to one worker process: sends requests, receives responses, tracks what is in progress."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from typing import Any, Protocol, cast

from gpuproof.serve.http.exchange import JSON_HEADERS, error_body
from gpuproof.serve.ipc import frames
from gpuproof.serve.ipc.frames import FrameReader
from gpuproof.serve.ipc.messages import (
    INFERENCE_ID,
    DeviceMessage,
    Headers,
    LoadedMessage,
    LoadFailedMessage,
    SharedBody,
    pack_shared_body,
    read_response,
)
from gpuproof.serve.ipc.shared_memory import BodyMemory
from gpuproof.serve.workers.pending_request import PendingRequest
from gpuproof.serve.workers.shared_status import SharedStatus

_FAST_BATCH_S = 0.005
"""Below this duration of a batch, the round trip to the frontend makes it worth sending the next batch ahead."""
_SMOOTHING = 0.2
_RECEIVE_BUFFER = 256 * 1024
_FREE_STREAMS = 64
"""This many streamed responses do not count against the worker's capacity."""
_LARGE = 128 * 1024
"""Bytes from which a separate write costs less than another copy."""


class WorkerEvents(Protocol):
    """Receives the events of workers."""

    def on_loaded(self, worker: WorkerClient, message: LoadedMessage) -> None:
        """The worker has loaded its model."""
        ...

    def on_load_failed(self, worker: WorkerClient, message: LoadFailedMessage) -> None:
        """The worker could not load its model, and ends."""
        ...

    def on_responses(self, worker: WorkerClient) -> None:
        """The worker has completed or started responses, and may have capacity for more requests."""
        ...

    def on_device_checked(self, worker: WorkerClient, message: DeviceMessage) -> None:
        """The worker has checked its model's device again, which was wrong when the model was loaded."""
        ...

    def on_disconnect(self, worker: WorkerClient) -> None:
        """The worker's end of the socket is closed, whether or not the process is alive."""
        ...


class WorkerClient(asyncio.BufferedProtocol):
    """The connection to one worker process.

    Args:
        number: its unique number, which is not reused.
        slot: index of its slot.
        timeout_s: how long a streamed response may pause.
        memory: shared memory for large bodies, if the worker has it too.
    """

    def __init__(
        self,
        number: int,
        slot: int,
        status: SharedStatus,
        timeout_s: float,
        events: WorkerEvents,
        memory: BodyMemory | None = None,
    ) -> None:
        self.number = number
        self.slot = slot
        self.status = status
        self.pid = 0
        self.requests: dict[int, PendingRequest] = {}
        """Requests that were sent to it and are not complete, by number."""
        self._streams: set[int] = set()
        """Numbers of the requests whose streamed responses have started."""
        self.ready = False
        self.loaded = False
        """Whether it has ever been ready."""
        self.retiring = False
        self.answered = 0
        """How many responses it has completed, with any status."""
        self.mean_batch_s = 0.0
        """Moving average of the duration of a batch, from decoding to encoding, in seconds."""
        self.batch_size = 1
        """Maximum number of requests per batch."""
        self.accepts_decoded = False
        """Whether the decoder may decode JSON bodies of numbers for it."""
        self._timeout = timeout_s
        self._events = events
        self._memory = memory
        self._sequence = 0
        self._reader = FrameReader()
        self._receive_buffer = memoryview(bytearray(_RECEIVE_BUFFER))
        self._transport: asyncio.WriteTransport | None = None

    @property
    def window(self) -> int:
        """How many requests it may have at a time."""
        return self.batch_size * 2 if self.mean_batch_s < _FAST_BATCH_S else self.batch_size

    @property
    def load(self) -> int:
        """How many requests it has; streamed responses leave it time for others between their pieces."""
        return len(self.requests) - min(len(self._streams), _FREE_STREAMS)

    def send(self, requests: Sequence[PendingRequest]) -> None:
        """Send requests in one write."""
        parts: list[Any] = []
        for request in requests:
            self._sequence += 1
            request.sequence = self._sequence
            request.worker = self.number
            self.requests[request.number] = request
            body, kind = request.exchange.body, frames.REQUEST
            # Only large bodies are memoryviews.
            if isinstance(body, memoryview) and (shared := self._shared_body(request)) is not None:
                body, kind = pack_shared_body(shared), frames.SHARED_REQUEST
            parts.append(frames.pack(kind, request.number, request.fields, len(body)))
            parts.append(body)
        self._write(parts)

    def cancel(self, request: PendingRequest) -> None:
        """Cancel a request. It counts as in progress until the worker confirms."""
        self._write([frames.pack(frames.CANCEL, request.number)])

    def stop(self) -> None:
        """Ask the worker to complete its requests and exit."""
        self._write([frames.pack(frames.STOP, 0)])

    def close(self) -> None:
        """Close the socket; the worker exits when it notices."""
        if self._transport is not None:
            self._transport.close()

    def has_started(self, request: PendingRequest) -> bool:
        """Whether the worker has taken this request from its socket."""
        return request.sequence <= self.status.taken

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not subclasses of asyncio's.
        self._transport = cast("asyncio.WriteTransport", transport)
        self._transport.set_write_buffer_limits(high=(1 << 31) - 1)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        self._events.on_disconnect(self)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's signature
        return self._reader.buffer(self._receive_buffer)

    def buffer_updated(self, nbytes: int) -> None:
        before = self.answered, len(self._streams)
        for frame in self._reader.received(self._receive_buffer, nbytes):
            self._handle_frame(frame)
        if (self.answered, len(self._streams)) != before:
            self._events.on_responses(self)

    def _shared_body(self, request: PendingRequest) -> SharedBody | None:
        """Where the body is in shared memory; it stays allocated until the worker has responded."""
        memory, body, decoded = self._memory, request.exchange.body, request.decoded
        offset = None if memory is None else memory.offset_of(body)
        if memory is None or offset is None:
            return None
        array = None if decoded is None else memory.offset_of(decoded.data)
        if decoded is None or array is None:
            return SharedBody(offset, len(body))
        return SharedBody(offset, len(body), array, decoded.shape)

    def _write(self, parts: list[Any]) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        if len(parts) > 1 and sum(map(len, parts)) < _LARGE:
            parts = [b"".join(parts)]
        for part in parts:
            self._transport.write(part)

    def _handle_frame(self, frame: frames.Frame) -> None:
        if frame.kind == frames.RESPONSE:
            request = self.requests.pop(frame.id, None)
            if request is not None:
                self._respond(request, frame)
        elif frame.kind == frames.LOADED:
            message: LoadedMessage = json.loads(frame.fields)
            self.ready = self.loaded = True
            self.batch_size = message["max_batch_size"] if message["batching"] else 1
            self.accepts_decoded = message["accepts_decoded"]
            self._events.on_loaded(self, message)
        elif frame.kind == frames.LOAD_FAILED:
            self._events.on_load_failed(self, json.loads(frame.fields))
        elif frame.kind == frames.DEVICE_CHECKED:
            self._events.on_device_checked(self, json.loads(frame.fields))
        else:
            self._handle_stream_frame(frame)

    def _handle_stream_frame(self, frame: frames.Frame) -> None:
        request = self.requests.get(frame.id)
        if request is None:
            return
        if frame.kind == frames.STREAM_START:
            self._streams.add(frame.id)
            self._start_stream(request, frame)
        elif frame.kind == frames.STREAM_PIECE:
            if not request.done:
                request.deadline = time.monotonic() + self._timeout
                request.exchange.send_piece(frame.body)
        else:
            del self.requests[frame.id]
            self._streams.discard(frame.id)
            self.answered += 1
            if frame.kind == frames.STREAM_BROKEN:
                request.reject(500, "")
            elif not request.done:
                request.exchange.end_stream()
                request.finish()

    def _respond(self, request: PendingRequest, frame: frames.Frame) -> None:
        status, phases, headers = read_response(frame.fields)
        request.phases = phases
        self.answered += 1
        took = phases.decode + phases.predict + phases.encode
        self.mean_batch_s += _SMOOTHING * (took - self.mean_batch_s)
        if status >= 400 and not headers:
            message = str(frame.body, "utf-8", "replace")
            request.respond(status, _with_inference_id(request, JSON_HEADERS), error_body(message))
        else:
            request.respond(status, _with_inference_id(request, headers), frame.body)

    def _start_stream(self, request: PendingRequest, frame: frames.Frame) -> None:
        if request.done:
            return
        status, request.phases, headers = read_response(frame.fields)
        request.streaming = True
        request.exchange.on_pieces_read = lambda pieces: self._grant_credit(request, pieces)
        request.exchange.start_stream(status, _with_inference_id(request, headers))

    def _grant_credit(self, request: PendingRequest, pieces: int) -> None:
        """Let the worker send as many more pieces as the client has read."""
        self._write([frames.pack(frames.CREDIT, request.number, b"%d" % pieces)])


def _with_inference_id(request: PendingRequest, headers: Headers) -> Headers:
    inference_id = request.exchange.headers.get(INFERENCE_ID)
    return (*headers, (INFERENCE_ID, inference_id)) if inference_id else headers
