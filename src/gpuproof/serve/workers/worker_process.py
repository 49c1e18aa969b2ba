"""A predictor: the process that loads the model and calls the user's functions, and nobody else does.

It takes up whatever has arrived when it is free, never waits for more, and writes the answers of a batch at once. It
ends when the front closes the socket, and the kernel ends it when the spawner dies.
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

from gpuproof.serve.errors import LoadError, RequestError
from gpuproof.serve.ipc import frames
from gpuproof.serve.ipc.frames import FrameReader
from gpuproof.serve.ipc.messages import Phases, answer_fields, read_call, read_place
from gpuproof.serve.ipc.requests import headers_of, request_at, request_of
from gpuproof.serve.ipc.shared_memory import OpenedMemory
from gpuproof.serve.model.interface import Device, Model, is_out_of_memory, load_model
from gpuproof.serve.model.tracebacks import of_handler
from gpuproof.serve.settings import Settings
from gpuproof.serve.workers.batching import Late, Outcome, Task, compute, refusal
from gpuproof.serve.workers.shared_status import LATE_SIGNAL, PLACE_SIGNAL, Board
from gpuproof.serve.workers.warmup import warm_up

PIECES_AHEAD = 16
"""So many pieces of a streamed answer may be on their way to a client that has not read them."""
_RECEIVE = 256 * 1024


def main(words: list[str]) -> int:
    """`predictor JSON`: what to load, and the descriptors of socket and board."""
    told: dict[str, Any] = json.loads(words[0])
    channel = socket.socket(fileno=told["channel"])
    board = Board(told["board"])
    memory = OpenedMemory(told["memory"]) if "memory" in told else None
    for name in ("channel", "board", "memory"):
        if name in told:
            os.set_inheritable(told[name], False)
    settings = _settings(told["settings"])
    # A crash in a library leaves at least the line of Python that it happened in.
    with contextlib.suppress(OSError, RuntimeError, ValueError, AttributeError):
        faulthandler.enable()
        faulthandler.register(PLACE_SIGNAL)
    # As in AWS's containers, where the server sets it up before the handler is imported.
    logging.basicConfig(level=settings.log_level, format="%(levelname)s %(name)s: %(message)s")
    predictor = Predictor(channel, board, settings.timeout_s, memory)
    code = 0
    try:
        model = predictor.load(Path(told["folder"]), settings, Device(**told["device"]), told["name"])
        if model is None:
            code = 1
        else:
            predictor.serve(model)
    except (BrokenPipeError, ConnectionResetError):
        # The front is gone.
        pass
    except BaseException:  # noqa: BLE001 - said before it ends
        code = 1
        say(traceback.format_exc())
    finally:
        # A handler's own threads must not keep it: who is asked to end, ends.
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError, AttributeError):
                stream.flush()
        os._exit(code)


class Predictor:
    """The loop of a predictor.

    Args:
        channel: the socket to the front.
        board: where it shows what it is at.
        timeout_s: how long one call of a user's function may take.
        memory: where large bodies lie.
    """

    def __init__(
        self, channel: socket.socket, board: Board, timeout_s: float, memory: OpenedMemory | None = None
    ) -> None:
        self._channel = channel
        self._board = board
        self._timeout = timeout_s
        self._memory = memory
        self._pid = os.getpid()
        self._is_copy = False
        self._reader = FrameReader()
        self._arriving = memoryview(bytearray(_RECEIVE))
        self._backlog: deque[Task] = deque()
        self._cancelled: set[int] = set()
        self._streams: dict[int, _Stream] = {}
        self._out: list[Any] = []
        self._taken = 0
        self._busy_since = 0.0
        self._open = True

    def load(self, folder: Path, settings: Settings, device: Device, name: str) -> Model | None:
        """Load the model and tell the front; `None` when there is nothing to serve."""
        began = time.monotonic()
        os.register_at_fork(after_in_child=self._forked)
        try:
            model = load_model(folder, settings, device, name)
            _import_ahead()
            warm_up(model, settings.warmup, say)
        except LoadError as error:
            self._fail(error.message, error.remedy, error.details, _ran_out_of_memory(error))
            return None
        except BaseException as error:  # noqa: BLE001 - `sys.exit` at a handler's import, too
            said = f"loading raised {type(error).__name__}: {error}"
            self._fail(said, None, of_handler(error), _ran_out_of_memory(error))
            return None
        if self._is_copy:
            os._exit(0)
        # What loading left behind lives as long as the process: no collection need look at it again.
        gc.collect()
        gc.freeze()
        if settings.warmup and not model.placement.ok:
            model.look_at_placement()
        told = {
            "batching": model.batch.enabled,
            "max_batch_size": model.batch.max_batch_size,
            "takes_numbers": model.takes_numbers,
            "load_s": time.monotonic() - began,
            **_told(model),
        }
        self._send(frames.LOADED, 0, json.dumps(told).encode())
        self._flush()
        return model

    def serve(self, model: Model) -> None:
        """Answer requests until the front closes the socket or says stop."""
        self._watch_time()
        most = max(model.batch.max_batch_size, 1) if model.batch.enabled else 1
        doubt = not model.placement.ok
        while self._open or self._backlog or self._streams:
            self._receive(wait=not self._backlog and not any(s.may_go_on for s in self._streams.values()))
            tasks = self._take(most)
            if tasks:
                compute(model, tasks, self._guarded, self._answer, self._flush, say)
                if doubt:
                    doubt = False
                    self._look_again(model)
                self._rest()
            self._go_on_streaming()
        model.unload()

    def _look_again(self, model: Model) -> None:
        """Some handlers move their model in their first `predict_fn`."""
        try:
            self._guarded(model.look_at_placement)
        except BaseException as error:  # noqa: BLE001 - a look at a user's objects is no reason to end
            refusal(error, say)
            return
        self._send(frames.PLACED, 0, json.dumps(_told(model)).encode())
        self._flush()

    def _receive(self, *, wait: bool) -> None:
        while self._open:
            try:
                into = self._reader.buffer(self._arriving)
                count = self._channel.recv_into(into, 0, 0 if wait else socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            if not count:
                # The front is gone: nobody waits for anything.
                os._exit(0)
            for frame in self._reader.received(self._arriving, count):
                self._obey(frame)
            wait = False
            if count < _RECEIVE and self._backlog:
                return

    def _obey(self, frame: frames.Frame) -> None:
        if frame.kind in (frames.CALL, frames.SHARED):
            deadline, headers = read_call(frame.fields)
            if frame.kind == frames.SHARED and self._memory is not None:
                request = request_at(headers, read_place(frame.body), self._memory)
            else:
                request = request_of(headers, frame.body)
            self._backlog.append(Task(frame.id, request, deadline))
        elif frame.kind == frames.CANCEL:
            stream = self._streams.pop(frame.id, None)
            if stream is not None:
                stream.close(self._guarded)
                self._rest()
                self._send(frames.END, frame.id)
                self._flush()
            else:
                self._cancelled.add(frame.id)
        elif frame.kind == frames.CREDIT:
            stream = self._streams.get(frame.id)
            if stream is not None:
                stream.credit += int(frame.fields)
        elif frame.kind == frames.STOP:
            self._open = False

    def _take(self, most: int) -> list[Task]:
        tasks: list[Task] = []
        now = time.monotonic()
        while self._backlog and len(tasks) < most:
            task = self._backlog.popleft()
            self._taken += 1
            task.taken = now
            if task.id not in self._cancelled and now < task.deadline:
                tasks.append(task)
            else:
                # Nobody waits for it; the front learns that its place is free.
                self._cancelled.discard(task.id)
                self._answer(task, RequestError(504, "too late"))
        if not self._backlog:
            # Cancelled when it had been answered already.
            self._cancelled.clear()
        self._board.show(self._taken, now if tasks else 0.0)
        self._flush()
        return tasks

    def _rest(self) -> None:
        self._board.busy(0.0)

    def _answer(self, task: Task, outcome: Outcome) -> None:
        phases = Phases(task.taken, task.decode, task.batch, task.predict, task.encode, task.batch_size)
        if isinstance(outcome, RequestError):
            fields = answer_fields(outcome.status, phases)
            self._send(frames.ANSWER, task.id, fields, outcome.message.encode(errors="replace"))
            return
        fields = answer_fields(outcome.status, phases, headers_of(outcome))
        if isinstance(outcome.body, (bytes, bytearray, memoryview)):
            self._send(frames.ANSWER, task.id, fields, outcome.body)
            return
        self._send(frames.BEGIN, task.id, fields)
        self._streams[task.id] = _Stream(iter(outcome.body))

    def _go_on_streaming(self) -> None:
        """One piece of each stream whose client reads: one that does not holds nobody up."""
        for number, stream in list(self._streams.items()):
            if not stream.may_go_on:
                continue
            self._board.busy(time.monotonic())
            try:
                piece = self._guarded(next, stream.pieces)
                if isinstance(piece, str):
                    piece = piece.encode()
                self._send(frames.PIECE, number, b"", memoryview(piece))
                stream.credit -= 1
            except StopIteration:
                del self._streams[number]
                self._send(frames.END, number)
            except BaseException as error:  # noqa: BLE001 - the stream's failure, not the predictor's
                del self._streams[number]
                self._send(frames.BROKEN, number, b"", refusal(error, say).message.encode())
            self._flush()
            self._rest()

    def _guarded(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a user's function: within its time, and in this process alone."""
        self._busy_since = now = time.monotonic()
        self._board.busy(now)
        try:
            return function(*arguments)
        finally:
            self._busy_since = 0.0
            if self._is_copy:
                # The handler forked, and the child came back here: the requests are its parent's.
                os._exit(0)

    def _forked(self) -> None:
        self._is_copy = True

    def _watch_time(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return

        def look(_number: int, _frame: object) -> None:
            since, self._busy_since = self._busy_since, 0.0
            if since and time.monotonic() - since > self._timeout:
                raise Late
            self._busy_since = since

        signal.signal(LATE_SIGNAL, look)
        # The front says when to end; a Ctrl-C at the terminal is for the front.
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    def _fail(self, message: str, remedy: str | None, details: str, out_of_memory: bool) -> None:
        told = {"message": message, "remedy": remedy, "details": details, "out_of_memory": out_of_memory}
        self._send(frames.FAILED, 0, json.dumps(told).encode())
        self._flush()

    def _send(self, kind: int, number: int, fields: bytes = b"", body: bytes | memoryview = b"") -> None:
        self._out.append(frames.pack(kind, number, fields, len(body)))
        if len(body):
            self._out.append(body)

    def _flush(self) -> None:
        if self._out:
            if os.getpid() != self._pid:
                # Forked by other means than Python's own, which `_forked` is told of.
                os._exit(0)
            self._channel.sendall(self._out[0] if len(self._out) == 1 else b"".join(self._out))
            self._out.clear()


class _Stream:
    """An answer that goes out in pieces."""

    def __init__(self, pieces: Iterator[Any]) -> None:
        self.pieces = pieces
        self.credit = PIECES_AHEAD

    @property
    def may_go_on(self) -> bool:
        return self.credit > 0

    def close(self, guard: Callable[..., Any]) -> None:
        close = getattr(self.pieces, "close", None)
        if close is None:
            return
        try:
            guard(close)
        except BaseException as error:  # noqa: BLE001 - nobody waits for it any more
            refusal(error, say)


def say(words: str) -> None:
    """A line for the log, whatever the handler has done to standard error."""
    try:
        sys.stderr.write(f"gpuproof serve: {words.rstrip()}\n")
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        # Closed or replaced by the handler.
        return


def _told(model: Model) -> dict[str, Any]:
    return {"on_device": model.placement.ok, "placement": model.placement.message}


def _import_ahead() -> None:
    """What reading and writing arrays needs: the first request should not wait for it."""
    for name in ("numpy", "orjson"):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def _ran_out_of_memory(error: BaseException | None) -> bool:
    """Whether that is what made loading fail, however it was wrapped."""
    while error is not None:
        if is_out_of_memory(error):
            return True
        error = error.__cause__
    return False


def _settings(told: dict[str, Any]) -> Settings:
    ports = told.pop("safe_port_range")
    return Settings(**told, safe_port_range=tuple(ports) if ports else None)
