"""A worker process: loads the model and calls the user's functions. No other process runs user code.

When it is idle, it takes all requests that have arrived, without waiting for more, and writes the responses of a batch
at once. It exits when the frontend closes the socket; the kernel ends it when the process that started it dies.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import importlib
import json
import logging
import os
import signal
import socket
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable

from gpuproof.serve.codecs import content_coding
from gpuproof.serve.errors import LoadError, RequestError
from gpuproof.serve.interface import Device, Model
from gpuproof.serve.ipc import frames
from gpuproof.serve.ipc.frames import FrameReader
from gpuproof.serve.ipc.messages import (
    DeviceMessage,
    LoadedMessage,
    LoadFailedMessage,
    Phases,
    read_request,
    read_shared_body,
    response_fields,
)
from gpuproof.serve.ipc.requests import packed_headers, request_from, shared_request
from gpuproof.serve.ipc.shared_memory import OpenedMemory
from gpuproof.serve.model.loader import load_model
from gpuproof.serve.model.tracebacks import format_handler_traceback
from gpuproof.serve.model.user_errors import is_out_of_memory
from gpuproof.serve.model.warmup import warm_up
from gpuproof.serve.observability.worker_log import log, print_to_log
from gpuproof.serve.settings import Settings
from gpuproof.serve.workers.batching import HandlerTimeout, Outcome, Task, compute, to_request_error
from gpuproof.serve.workers.shared_status import DUMP_STACK_SIGNAL, TIMEOUT_SIGNAL, SharedStatus

MAX_PIECES_AHEAD = 16
"""Pieces of a streamed response that may be sent before the client has read any."""
_RECEIVE_BUFFER = 256 * 1024


def main(words: list[str]) -> int:
    """Run `worker JSON`. The JSON holds a `WorkerConfig` and the descriptors `channel`, `status` and `memory`."""
    config: dict[str, Any] = json.loads(words[0])
    channel = socket.socket(fileno=config["channel"])
    status = SharedStatus(config["status"])
    memory = OpenedMemory(config["memory"]) if "memory" in config else None
    for name in ("channel", "status", "memory"):
        if name in config:
            os.set_inheritable(config[name], False)
    settings = _read_settings(config["settings"])
    print_to_log()
    # A crash in native code then logs at least the line of Python.
    with contextlib.suppress(OSError, RuntimeError, ValueError, AttributeError):
        faulthandler.enable()
        faulthandler.register(DUMP_STACK_SIGNAL)
    # As in AWS's containers, which configure logging before the handler is imported.
    logging.basicConfig(level=settings.log_level, format="%(levelname)s %(name)s: %(message)s")
    worker = WorkerProcess(channel, status, settings.timeout_s, memory, settings.max_payload)
    code = 0
    try:
        model = worker.load(Path(config["folder"]), settings, Device(**config["device"]), config["name"])
        if model is None:
            code = 1
        else:
            worker.serve(model)
    except (BrokenPipeError, ConnectionResetError):
        # The frontend has closed the socket.
        pass
    except BaseException:  # noqa: BLE001 - logged before exit
        code = 1
        log(traceback.format_exc())
    finally:
        # `_exit`, because threads of the handler must not keep the process alive.
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError, AttributeError):
                stream.flush()
        os._exit(code)


class WorkerProcess:
    """The main loop of a worker.

    Args:
        timeout_s: how long one call of a user's function may take, in seconds.
        max_payload: maximum size of a body in bytes.
    """

    def __init__(
        self,
        channel: socket.socket,
        status: SharedStatus,
        timeout_s: float,
        memory: OpenedMemory | None = None,
        max_payload: int = Settings.max_payload,
    ) -> None:
        self._max_payload = max_payload
        self._channel = channel
        self._status = status
        self._timeout = timeout_s
        self._memory = memory
        self._pid = os.getpid()
        self._is_fork = False
        self._reader = FrameReader()
        self._receive_buffer = memoryview(bytearray(_RECEIVE_BUFFER))
        self._queue: deque[Task] = deque()
        self._cancelled: set[int] = set()
        self._streams: dict[int, _Stream] = {}
        self._out: list[Any] = []
        self._taken = 0
        self._call_started = 0.0
        self._accepting = True

    def load(self, folder: Path, settings: Settings, device: Device, name: str) -> Model | None:
        """Load the model and report the result to the frontend; `None` if loading failed."""
        began = time.monotonic()
        os.register_at_fork(after_in_child=self._after_fork)
        try:
            model = load_model(folder, settings, device, name)
            _import_early()
            warm_up(model, settings.warmup, log)
        except LoadError as error:
            self._send_load_failure(error, out_of_memory=_has_out_of_memory_cause(error))
            return None
        except BaseException as error:  # noqa: BLE001 - including `sys.exit` in a handler
            failure = LoadError(
                f"loading raised {type(error).__name__}: {error}",
                details=format_handler_traceback(error),
                headline="loading failed:",
            )
            self._send_load_failure(failure, out_of_memory=_has_out_of_memory_cause(error))
            return None
        if self._is_fork:
            os._exit(0)
        # Objects created by loading live as long as the process: exclude them from garbage collection.
        gc.collect()
        gc.freeze()
        if settings.warmup and not model.device_report.ok:
            model.check_device()
        loaded: LoadedMessage = {
            "batching": model.batch.enabled,
            "max_batch_size": model.batch.max_batch_size,
            "accepts_decoded": model.accepts_decoded,
            "load_s": time.monotonic() - began,
            **_device_message(model),
        }
        self._send(frames.LOADED, 0, json.dumps(loaded).encode())
        self._flush()
        return model

    def serve(self, model: Model) -> None:
        """Handle requests until the frontend closes the socket or sends STOP."""
        self._install_timeout_handler()
        max_batch = max(model.batch.max_batch_size, 1) if model.batch.enabled else 1
        recheck = not model.device_report.ok
        while self._accepting or self._queue or self._streams:
            self._receive(wait=not self._queue and not any(s.may_continue for s in self._streams.values()))
            tasks = self._take_batch(max_batch)
            if tasks:
                compute(model, tasks, self._call_user_code, self._answer, self._flush, log)
                if recheck:
                    recheck = False
                    self._recheck_device(model)
                self._set_idle()
            self._advance_streams()
        model.unload()

    def _recheck_device(self, model: Model) -> None:
        """Check the device again, because some handlers move their model in their first `predict_fn`."""
        try:
            self._call_user_code(model.check_device)
        except BaseException as error:  # noqa: BLE001 - user code must not end the worker
            to_request_error(error, log)
            return
        self._send(frames.DEVICE_CHECKED, 0, json.dumps(_device_message(model)).encode())
        self._flush()

    def _receive(self, *, wait: bool) -> None:
        while self._accepting:
            try:
                into = self._reader.buffer(self._receive_buffer)
                count = self._channel.recv_into(into, 0, 0 if wait else socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            if not count:
                # The frontend has closed the socket: no client waits.
                os._exit(0)
            for frame in self._reader.received(self._receive_buffer, count):
                self._handle_frame(frame)
            wait = False
            if count < _RECEIVE_BUFFER and self._queue:
                return

    def _handle_frame(self, frame: frames.Frame) -> None:
        if frame.kind in (frames.REQUEST, frames.SHARED_REQUEST):
            deadline, headers = read_request(frame.fields)
            if frame.kind == frames.SHARED_REQUEST and self._memory is not None:
                request = shared_request(headers, read_shared_body(frame.body), self._memory)
            else:
                request = request_from(headers, frame.body)
            self._queue.append(Task(frame.id, request, deadline))
        elif frame.kind == frames.CANCEL:
            stream = self._streams.pop(frame.id, None)
            if stream is not None:
                stream.close(self._call_user_code)
                self._set_idle()
                self._send(frames.STREAM_END, frame.id)
                self._flush()
            else:
                self._cancelled.add(frame.id)
        elif frame.kind == frames.CREDIT:
            stream = self._streams.get(frame.id)
            if stream is not None:
                stream.credit += int(frame.fields)
        elif frame.kind == frames.STOP:
            self._accepting = False

    def _take_batch(self, max_batch: int) -> list[Task]:
        tasks: list[Task] = []
        now = time.monotonic()
        while self._queue and len(tasks) < max_batch:
            task = self._queue.popleft()
            self._taken += 1
            task.taken = now
            if task.id not in self._cancelled and now < task.deadline:
                if content_coding.HEADER not in task.request.headers or self._decode_content(task):
                    tasks.append(task)
            else:
                # No client waits for it, but the frontend must know that it no longer counts.
                self._cancelled.discard(task.id)
                self._answer(task, RequestError(504, "timed out before it was computed"))
        if not self._queue:
            # Cancellations that arrived after the response.
            self._cancelled.clear()
        self._status.publish(self._taken, now if tasks else 0.0)
        self._flush()
        return tasks

    def _decode_content(self, task: Task) -> bool:
        try:
            task.request = content_coding.decoded(task.request, self._max_payload)
        except RequestError as error:
            self._answer(task, error)
            return False
        return True

    def _set_idle(self) -> None:
        self._status.set_busy_since(0.0)

    def _answer(self, task: Task, outcome: Outcome) -> None:
        phases = Phases(task.taken, task.decode, task.batch, task.predict, task.encode, task.batch_size)
        if isinstance(outcome, RequestError):
            fields = response_fields(outcome.status, phases)
            self._send(frames.RESPONSE, task.id, fields, outcome.message.encode(errors="replace"))
            return
        fields = response_fields(outcome.status, phases, packed_headers(outcome))
        if isinstance(outcome.body, (bytes, bytearray, memoryview)):
            self._send(frames.RESPONSE, task.id, fields, outcome.body)
            return
        self._send(frames.STREAM_START, task.id, fields)
        self._streams[task.id] = _Stream(iter(outcome.body))

    def _advance_streams(self) -> None:
        """Send one piece of each stream whose client has read enough; slow clients do not block others."""
        for number, stream in list(self._streams.items()):
            if not stream.may_continue:
                continue
            self._status.set_busy_since(time.monotonic())
            try:
                piece = self._call_user_code(next, stream.pieces)
                if isinstance(piece, str):
                    piece = piece.encode()
                self._send(frames.STREAM_PIECE, number, b"", memoryview(piece))
                stream.credit -= 1
            except StopIteration:
                del self._streams[number]
                self._send(frames.STREAM_END, number)
            except BaseException as error:  # noqa: BLE001 - only this stream fails
                del self._streams[number]
                self._send(frames.STREAM_BROKEN, number, b"", to_request_error(error, log).message.encode())
            self._flush()
            self._set_idle()

    def _call_user_code(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a user's function, subject to the timeout, and only in this process."""
        self._call_started = now = time.monotonic()
        self._status.set_busy_since(now)
        try:
            return function(*arguments)
        finally:
            self._call_started = 0.0
            if self._is_fork:
                # The handler forked and the child returned here: the requests belong to the parent.
                os._exit(0)

    def _after_fork(self) -> None:
        self._is_fork = True

    def _install_timeout_handler(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return

        def on_timeout_signal(_number: int, _frame: object) -> None:
            since, self._call_started = self._call_started, 0.0
            if since and time.monotonic() - since > self._timeout:
                raise HandlerTimeout
            self._call_started = since

        signal.signal(TIMEOUT_SIGNAL, on_timeout_signal)
        # The frontend handles Ctrl-C and stops the workers.
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    def _send_load_failure(self, error: LoadError, *, out_of_memory: bool) -> None:
        failure: LoadFailedMessage = {
            "message": error.message,
            "remedy": error.remedy,
            "details": error.details,
            "headline": error.headline,
            "out_of_memory": out_of_memory,
        }
        self._send(frames.LOAD_FAILED, 0, json.dumps(failure).encode())
        self._flush()

    def _send(self, kind: int, number: int, fields: bytes = b"", body: bytes | memoryview = b"") -> None:
        self._out.append(frames.pack(kind, number, fields, len(body)))
        if len(body):
            self._out.append(body)

    def _flush(self) -> None:
        if self._out:
            if os.getpid() != self._pid:
                # Forked without `os.fork`, so that `_after_fork` was not called.
                os._exit(0)
            self._channel.sendall(self._out[0] if len(self._out) == 1 else b"".join(self._out))
            self._out.clear()


class _Stream:
    """A streamed response."""

    def __init__(self, pieces: Iterator[Any]) -> None:
        self.pieces = pieces
        self.credit = MAX_PIECES_AHEAD

    @property
    def may_continue(self) -> bool:
        return self.credit > 0

    def close(self, guard: Callable[..., Any]) -> None:
        close = getattr(self.pieces, "close", None)
        if close is None:
            return
        try:
            guard(close)
        except BaseException as error:  # noqa: BLE001 - no client waits for it
            to_request_error(error, log)


def _device_message(model: Model) -> DeviceMessage:
    return {"on_device": model.device_report.ok, "placement": model.device_report.message}


def _import_early() -> None:
    """Import what encoding and decoding need, so that the first request does not wait for it."""
    for name in ("numpy", "orjson"):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def _has_out_of_memory_cause(error: BaseException | None) -> bool:
    """Whether the error or one of its causes is an out-of-memory error."""
    while error is not None:
        if is_out_of_memory(error):
            return True
        error = error.__cause__
    return False


def _read_settings(fields: dict[str, Any]) -> Settings:
    ports = fields.pop("safe_port_range")
    return Settings(**fields, safe_port_range=tuple(ports) if ports else None)
