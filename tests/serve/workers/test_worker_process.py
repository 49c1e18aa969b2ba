"""A worker's loop, link to over its socket as the frontend does."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Hashable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from gpuproof.serve.errors import LoadError
from gpuproof.serve.interface import BatchSettings, Device, Model, Request, Response
from gpuproof.serve.ipc import frames
from gpuproof.serve.ipc.frames import Frame, FrameReader, pack
from gpuproof.serve.ipc.messages import RequestHeaders, read_response, request_fields
from gpuproof.serve.settings import Settings
from gpuproof.serve.workers import worker_process
from gpuproof.serve.workers.shared_status import SharedStatus
from gpuproof.serve.workers.worker_process import MAX_PIECES_AHEAD, WorkerProcess
from support.cli_sandbox import until


class PausableModel(Model):
    """Answers with the body once it is released; a body of `stream N` is answered with N pieces."""

    def __init__(self, *, batching: bool = False) -> None:
        self.name = "model"
        self.batch = BatchSettings(batching, 32)
        self.has_transform = False
        self.leave = threading.Event()
        self.leave.set()
        self.began = threading.Event()
        self.seen: list[bytes] = []
        self.closed = 0
        self.unloaded = False

    def decode(self, request: Request) -> Any:
        return bytes(request.body)

    def batch_key(self, data: Any) -> Hashable | None:
        return "bytes"

    def predict(self, data: Any, request: Request) -> Any:
        return self.predict_batch([data])[0]

    def predict_batch(self, items: Sequence[Any]) -> list[Any]:
        self.began.set()
        assert self.leave.wait(300)
        self.seen += items
        return list(items)

    def encode(self, prediction: Any, request: Request) -> Response:
        if prediction.startswith(b"stream"):
            return Response(self._pieces(int(prediction.split()[1])), "text/plain")
        return Response(prediction, "text/plain", custom_attributes=request.custom_attributes or None)

    def _pieces(self, count: int) -> Iterator[bytes]:
        try:
            for n in range(count):
                yield b"%d" % n
        finally:
            self.closed += 1

    def transform(self, request: Request) -> Response:
        raise NotImplementedError

    def unload(self) -> None:
        self.unloaded = True


class WorkerLink:
    """The frontend's end of a worker that runs in a thread."""

    def __init__(self, model: PausableModel) -> None:
        self.model = model
        self.front, theirs = socket.socketpair()
        self.front.settimeout(300)
        self.status = SharedStatus.create()
        self.predictor = WorkerProcess(theirs, self.status, 60)
        self.reader = FrameReader()
        self.waiting: list[Frame] = []
        self.thread = threading.Thread(target=self.predictor.serve, args=(model,))
        self.thread.start()

    def call(self, number: int, body: bytes, within: float = 60, **headers: str) -> bytes:
        fields = request_fields(time.monotonic() + within, RequestHeaders(headers))
        return pack(frames.REQUEST, number, fields, len(body)) + body

    def send(self, *parts: bytes) -> None:
        self.front.sendall(b"".join(parts))

    def next(self) -> Frame:
        while not self.waiting:
            self.waiting += self.reader.feed(self.front.recv(65536))
        return self.waiting.pop(0)

    def answer(self) -> tuple[int, int, bytes]:
        frame = self.next()
        assert frame.kind == frames.RESPONSE
        return frame.id, read_response(frame.fields)[0], bytes(frame.body)

    def stop(self) -> None:
        self.model.leave.set()
        self.send(pack(frames.STOP, 0))
        self.thread.join(300)
        assert not self.thread.is_alive()
        assert self.model.unloaded
        self.front.close()
        self.status.close()


@pytest.fixture
def link() -> Iterator[WorkerLink]:
    one = WorkerLink(PausableModel())
    yield one
    one.stop()


def test_each_call_is_answered_under_its_number(link: WorkerLink) -> None:
    link.send(link.call(7, b"seven"), link.call(8, b"eight"))
    assert [link.answer(), link.answer()] == [(7, 200, b"seven"), (8, 200, b"eight")]


def test_what_arrives_while_it_is_busy_is_one_batch() -> None:
    one = WorkerLink(PausableModel(batching=True))
    one.model.leave.clear()
    one.send(one.call(1, b"a"))
    assert one.model.began.wait(300)
    one.send(*(one.call(number, b"b") for number in range(2, 10)))
    one.model.leave.set()
    found = [one.next() for _ in range(9)]
    assert [read_response(frame.fields)[1].batch_size for frame in found] == [1] + [8] * 8
    one.stop()


def test_the_status_distinguishes_started_requests_from_waiting_ones(link: WorkerLink) -> None:
    link.model.leave.clear()
    link.send(link.call(1, b"a"), link.call(2, b"b"))
    assert link.model.began.wait(300)
    assert link.status.taken == 1
    assert 0 < link.status.busy_since <= time.monotonic()
    link.model.leave.set()
    link.answer()
    link.answer()
    until(lambda: link.status.busy_since == 0, "the worker to rest")
    assert link.status.taken == 2


def test_a_cancelled_waiting_request_is_not_computed_and_reported_as_ended(link: WorkerLink) -> None:
    link.model.leave.clear()
    link.send(link.call(1, b"a"))
    assert link.model.began.wait(300)
    link.send(link.call(2, b"b"), link.call(3, b"c"), pack(frames.CANCEL, 2))
    link.model.leave.set()
    assert [link.answer()[:2] for _ in range(3)] == [(1, 200), (2, 504), (3, 200)]
    assert link.model.seen == [b"a", b"c"]


def test_what_comes_too_late_is_not_computed(link: WorkerLink) -> None:
    link.send(link.call(1, b"a", within=-1))
    assert link.answer()[:2] == (1, 504)
    assert link.model.seen == []


def test_a_stream_waits_for_credit_and_others_do_not_wait_for_it(link: WorkerLink) -> None:
    link.send(link.call(1, b"stream 20"))
    assert link.next().kind == frames.STREAM_START
    assert [bytes(link.next().body) for _ in range(MAX_PIECES_AHEAD)] == [
        b"%d" % n for n in range(MAX_PIECES_AHEAD)
    ]
    link.send(link.call(2, b"other"))
    assert link.answer() == (2, 200, b"other")
    link.send(pack(frames.CREDIT, 1, b"10"))
    assert [bytes(link.next().body) for _ in range(4)] == [b"16", b"17", b"18", b"19"]
    assert link.next().kind == frames.STREAM_END


def test_a_cancelled_stream_is_closed(link: WorkerLink) -> None:
    link.send(link.call(1, b"stream 1000"))
    for _ in range(MAX_PIECES_AHEAD + 1):
        link.next()
    link.send(pack(frames.CANCEL, 1))
    assert link.next().kind == frames.STREAM_END
    assert link.model.closed == 1


def test_attributes_and_id_reach_the_handler(link: WorkerLink) -> None:
    link.send(link.call(1, b"a", **{"x-amzn-sagemaker-custom-attributes": "trace"}))
    _, _, headers = read_response(link.next().fields)
    assert ("x-amzn-sagemaker-custom-attributes", "trace") in headers


def test_stop_answers_first_what_has_come() -> None:
    one = WorkerLink(PausableModel())
    one.model.leave.clear()
    one.send(one.call(1, b"a"), one.call(2, b"b"), pack(frames.STOP, 0))
    one.model.leave.set()
    assert [one.answer()[0], one.answer()[0]] == [1, 2]
    one.thread.join(300)
    assert one.model.unloaded


@pytest.mark.parametrize("error", [LoadError("no weights", "bring some", "Traceback …"), SystemExit(3)])
def test_a_model_that_cannot_be_loaded_is_reported_to_the_front(
    monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    def fail(*_: object) -> Model:
        raise error

    monkeypatch.setattr(worker_process, "load_model", fail)
    ours, theirs = socket.socketpair()
    status = SharedStatus.create()
    with ours, theirs:
        assert WorkerProcess(theirs, status, 60).load(Path("/none"), Settings(), Device(), "model") is None
        (frame,) = FrameReader().feed(ours.recv(65536))
    status.close()
    report = json.loads(frame.fields)
    assert frame.kind == frames.LOAD_FAILED
    assert report["message"] in ("no weights", "loading raised SystemExit: 3")
    assert "Traceback" in report["details"]
