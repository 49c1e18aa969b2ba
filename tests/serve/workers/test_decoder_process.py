"""The reader's two ends apart: a link whose reader is this test, and a reader whose front is this test."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Coroutine, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from gpuproof.serve.http.asgi import AsgiExchange
from gpuproof.serve.ipc import frames
from gpuproof.serve.ipc.frames import FrameReader, pack
from gpuproof.serve.ipc.messages import RequestHeaders, pack_sizes, read_sizes
from gpuproof.serve.ipc.shared_memory import SLOT, BodyMemory, OpenedMemory
from gpuproof.serve.workers import decoder_client
from gpuproof.serve.workers.decoder_client import DecoderClient
from gpuproof.serve.workers.pending_request import PendingRequest
from gpuproof.serve.workers.spawner import Spawner

BODY = b"[" + b"1.5, " * 20_000 + b"2]"


class Started(Spawner):
    """Starts nothing, and keeps the other end of the socket."""

    def __init__(self) -> None:
        self.sockets: list[socket.socket] = []
        self.signals: list[tuple[int, int]] = []

    def spawn(
        self, number: int, command: list[str], environment: dict[str, str], descriptors: Mapping[str, int]
    ) -> None:
        self.sockets.append(socket.socket(fileno=os.dup(descriptors["channel"])))

    def signal(self, number: int, signal_number: int) -> None:
        self.signals.append((number, int(signal_number)))


class Bench:
    """A front's end with memory, and what it was given back."""

    def __init__(self) -> None:
        memory = BodyMemory.create()
        assert memory is not None
        self.memory = memory
        self.spawner = Started()
        self.messages: list[str] = []
        self.back: list[int] = []
        self.reader = DecoderClient(self.spawner, ["reader"], {}, memory, self.messages.append)

    def ask(self, number: int, body: bytes = BODY) -> bool:
        view = self.memory.take(len(body))
        assert view is not None
        view[:] = body
        call = PendingRequest(
            number,
            AsgiExchange("POST", "/invocations", "", RequestHeaders(), view),
            b"",
            0,
            60,
            lambda _: None,
        )
        return self.reader.decode(call, lambda call: self.back.append(call.number))

    async def ready(self) -> socket.socket:
        """Start it: with its first body, which it is not given."""
        assert not self.ask(0)
        (theirs,) = self.spawner.sockets[-1:]
        theirs.sendall(pack(frames.LOADED, 0))
        await self.until(lambda: self.reader.ready)
        return theirs

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(60):
            while not condition():
                await asyncio.sleep(0.01)

    @property
    def free(self) -> int | None:
        """The first slot that is free."""
        offset = self.memory.offset_of(self.memory.take(1))
        return None if offset is None else offset // SLOT


def on_a_loop(test: Callable[[Bench], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(test(Bench()))


def test_it_is_given_so_much_and_no_more() -> None:
    async def test(bench: Bench) -> None:
        await bench.ready()
        assert [bench.ask(number) for number in range(1, 10)] == [True] * 8 + [False]
        assert not bench.ask(10, b"{" + BODY)
        assert not bench.ask(11, b"[" + b"1," * 5_000_000 + b"1]")

    on_a_loop(test)


def test_one_large_body_is_enough_for_a_while() -> None:
    async def test(bench: Bench) -> None:
        await bench.ready()
        large = b"[" + b"1," * 3_000_000 + b"1]"
        assert bench.ask(1, large)
        assert not bench.ask(2, large)
        assert bench.ask(3)

    on_a_loop(test)


def test_its_time_runs_for_one_body_and_not_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(bench: Bench) -> None:
        theirs = await bench.ready()
        now = 100.0
        monkeypatch.setattr(decoder_client, "time", SimpleNamespace(monotonic=lambda: now))
        assert bench.ask(1)
        assert bench.ask(2)
        now = 109.0
        theirs.sendall(pack(frames.DECODED, 1))
        await bench.until(lambda: bench.back)
        assert bench.reader.check(118.0, 0.0)
        assert bench.spawner.signals == []
        # The whole server was stopped.
        assert bench.reader.check(119.5, 110.0)
        assert bench.spawner.signals == []
        assert bench.reader.check(120.5, 110.0)
        assert bench.spawner.signals == [(-1, 9)]

    on_a_loop(test)


@pytest.mark.parametrize("ended_first", [False, True])
def test_requests_move_to_another_worker_only_after_the_first_has_died(ended_first: bool) -> None:
    """A socket may be lost and its reader live on: it must not write into the next request's body."""

    async def test(bench: Bench) -> None:
        theirs = await bench.ready()
        assert bench.ask(1)
        assert bench.free == 2
        if ended_first:
            bench.reader.on_exit(-1)
        theirs.close()
        await bench.until(lambda: bench.back)
        assert bench.messages == ["the decoder of large bodies has ended; workers decode them themselves"]
        if not ended_first:
            assert bench.spawner.signals == [(-1, 9)]
            assert bench.free == 2
            bench.reader.on_exit(-1)
        assert bench.free == 0

    on_a_loop(test)


def test_without_a_descriptor_left_predictors_read(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(bench: Bench) -> None:
        def none_left(*_: object) -> None:
            raise OSError(24, "Too many open files")

        with monkeypatch.context() as patch:
            patch.setattr(socket, "socketpair", none_left)
            assert [bench.ask(number) for number in range(1, 6)] == [False] * 5
        await bench.ready()
        assert bench.ask(6)

    on_a_loop(test)


def test_one_that_cannot_read_is_not_started_again() -> None:
    async def test(bench: Bench) -> None:
        assert not bench.ask(0)
        (theirs,) = bench.spawner.sockets
        theirs.sendall(pack(frames.LOAD_FAILED, 0))
        theirs.close()
        await bench.until(lambda: bench.spawner.signals)
        assert not bench.ask(1)
        assert len(bench.spawner.sockets) == 1
        assert bench.messages == []

    on_a_loop(test)


@pytest.fixture
def memory() -> BodyMemory:
    made = BodyMemory.create()
    assert made is not None
    return made


def run(
    memory: BodyMemory, folder: str, before: str = "pass"
) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """A real reader, started in a folder."""
    ours, theirs = socket.socketpair()
    ours.settimeout(300)
    arguments = json.dumps({"channel": theirs.fileno(), "memory": memory.descriptor})
    code = f"import sys; {before}; from gpuproof.serve.main import main; sys.exit(main(['decoder', {arguments!r}]))"
    process = subprocess.Popen(
        [sys.executable, "-c", code], cwd=folder, pass_fds=[theirs.fileno(), memory.descriptor]
    )
    theirs.close()
    return process, ours


def frame(ours: socket.socket) -> frames.Frame:
    (one,) = FrameReader().feed(ours.recv(4096))
    return one


def test_it_decodes_in_place_beside_other_modules_and_ends_with_its_front(
    memory: BodyMemory, tmp_path: Any
) -> None:
    (tmp_path / "numpy.py").write_text("raise SystemExit('not this one')")
    (tmp_path / "orjson.py").write_text("raise SystemExit('nor this one')")
    process, ours = run(memory, str(tmp_path))
    with process, ours:
        assert frame(ours).kind == frames.LOADED
        # These tests may themselves run with the lowest priority, 19.
        lower = min(os.getpriority(os.PRIO_PROCESS, 0) + 1, 19)
        assert os.getpriority(os.PRIO_PROCESS, process.pid) >= lower
        assert os.sched_getscheduler(process.pid) == os.SCHED_BATCH
        body, array = memory.take(20), memory.take(40)
        assert body is not None
        assert array is not None
        body[:] = b"[[1, 2.5], [3, -4]] "
        where = pack_sizes((0, 20, SLOT, 40))
        ours.sendall(pack(frames.DECODE, 7, b"", len(where)) + where)
        received = frame(ours)
        assert (received.kind, received.id, read_sizes(received.fields)) == (frames.DECODED, 7, (2, 2))
        assert list(OpenedMemory(memory.descriptor).part(SLOT, 16).cast("f")) == [1, 2.5, 3, -4]
        body[:] = b"[[1, 2.5], [3]]     "
        ours.sendall(pack(frames.DECODE, 8, b"", len(where)) + where)
        assert frame(ours).fields == b""
        ours.shutdown(socket.SHUT_RDWR)
        assert process.wait(300) == 0


@pytest.mark.parametrize("module", ["orjson", "numpy"])
def test_without_its_modules_it_reports_them_and_ends(memory: BodyMemory, tmp_path: Any, module: str) -> None:
    process, ours = run(memory, str(tmp_path), f"sys.modules[{module!r}] = None")
    with process, ours:
        assert frame(ours).kind == frames.LOAD_FAILED
        assert process.wait(300) == 0
