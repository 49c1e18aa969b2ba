"""The core without sockets: which requests are accepted, queued, refused or timed out."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from gpuproof.serve.frontend.inference import InferenceCore
from gpuproof.serve.http.exchange import Exchange
from gpuproof.serve.ipc import frames
from gpuproof.serve.ipc.messages import Headers, Phases, RequestHeaders, response_fields
from gpuproof.serve.ipc.shared_memory import SLOT, BodyMemory
from gpuproof.serve.observability.request_record import RequestRecord
from gpuproof.serve.settings import Settings
from gpuproof.serve.workers.dispatcher import Dispatcher
from gpuproof.serve.workers.model_state import ModelHealth, ModelState
from gpuproof.serve.workers.shared_status import SharedStatus
from gpuproof.serve.workers.worker_client import WorkerClient


class Client(Exchange):
    """Records what it receives."""

    def __init__(self, body: bytes | memoryview = b"x", **headers: str) -> None:
        named = RequestHeaders({name.replace("_", "-"): value for name, value in headers.items()})
        super().__init__("POST", "/invocations", "", named, body)
        self.received: list[Any] = []
        self.received_headers: dict[str, str] = {}

    def respond(self, status: int, headers: Headers, body: bytes | memoryview) -> None:
        self.status = status
        self.received.append((status, bytes(body)))
        self.received_headers = dict(headers)

    def start_stream(self, status: int, headers: Headers) -> None:
        self.received.append("begin")

    def send_piece(self, piece: bytes | memoryview) -> None:
        self.received.append(bytes(piece))

    def end_stream(self) -> None:
        self.received.append("end")

    def abort(self) -> None:
        self.received.append("abort")


class Ignored:
    """Takes a worker's events, and does nothing about them."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_: None


class Bench:
    """A core with one model and workers that write nowhere."""

    def __init__(
        self, max_queue: int = 4, max_bytes: int = 1000, timeout_s: float = 60, grace_s: float = 60
    ) -> None:
        self.records: list[RequestRecord] = []
        self.late: list[WorkerClient] = []
        self.hung: list[WorkerClient] = []
        self.core = InferenceCore(Settings(timeout_s=timeout_s), self.records.append)
        dispatcher = Dispatcher(max_queue, max_bytes, timeout_s, grace_s, self.late.append, self.hung.append)
        self.model = ModelState("model", "/model", dispatcher, ModelHealth(1))
        self.core.models["model"] = self.model
        self.statuses: list[SharedStatus] = []

    def worker(self, number: int = 1) -> WorkerClient:
        status = SharedStatus.create()
        self.statuses.append(status)

        worker = WorkerClient(number, 0, status, 60, Ignored())
        worker.ready = True
        worker.mean_batch_s = 1.0
        self.model.health.loaded.add(0)
        self.model.dispatcher.add(worker)
        return worker

    def ask(self, *clients: Client) -> None:
        for client in clients:
            self.core.infer(client, self.model)

    def close(self) -> None:
        for status in self.statuses:
            status.close()


def on_a_loop(test: Callable[[Bench], Coroutine[Any, Any, None]], **options: Any) -> None:
    async def run() -> None:
        bench = Bench(**options)
        try:
            await test(bench)
        finally:
            bench.close()

    asyncio.run(run())


async def turn() -> None:
    """One turn of the loop, in which what waits is handed out."""
    await asyncio.sleep(0)
    await asyncio.sleep(0)


async def until(condition: Callable[[], object]) -> None:
    """Wait until something holds."""
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.01)


def test_nothing_is_taken_in_before_the_model_is_loaded() -> None:
    async def test(bench: Bench) -> None:
        client = Client()
        bench.ask(client)
        assert client.received[0][0] == 503
        assert int(client.received_headers["retry-after"]) >= 1

    on_a_loop(test)


def test_it_is_unhealthy_until_all_predictors_loaded_and_after_one_is_lost() -> None:
    async def test(bench: Bench) -> None:
        assert "0 of 1" in str(bench.core.unhealthy)
        bench.worker()
        assert bench.core.unhealthy is None
        bench.model.health.lost.append("lost for good")
        assert bench.core.unhealthy == "lost for good"

    on_a_loop(test)


def test_a_slow_worker_gets_one_at_a_time_and_the_rest_waits_in_order() -> None:
    async def test(bench: Bench) -> None:
        worker = bench.worker()
        bench.ask(*(Client(b"%d" % n) for n in range(3)))
        await turn()
        assert [call.exchange.body for call in worker.requests.values()] == [b"0"]
        assert [call.exchange.body for call in bench.model.dispatcher.queue] == [b"1", b"2"]

    on_a_loop(test)


def test_a_quick_worker_gets_one_ahead() -> None:
    async def test(bench: Bench) -> None:
        worker = bench.worker()
        worker.mean_batch_s = 0.0001
        bench.ask(*(Client() for _ in range(3)))
        await turn()
        assert len(worker.requests) == 2

    on_a_loop(test)


def test_two_workers_share_what_arrives() -> None:
    async def test(bench: Bench) -> None:
        first, second = bench.worker(1), bench.worker(2)
        first.batch_size = second.batch_size = 8
        bench.ask(*(Client() for _ in range(4)))
        await turn()
        assert (len(first.requests), len(second.requests)) == (2, 2)

    on_a_loop(test, max_queue=10)


@pytest.mark.parametrize(("options", "taken"), [({"max_queue": 2}, 2), ({"max_bytes": 15}, 2)])
def test_what_the_queue_does_not_hold_is_refused(options: dict[str, int], taken: int) -> None:
    async def test(bench: Bench) -> None:
        bench.model.health.loaded.add(0)
        clients = [Client(b"0123456789") for _ in range(4)]
        bench.ask(*clients)
        assert [bool(client.received) for client in clients] == [False] * taken + [True] * (4 - taken)
        assert clients[-1].received[0][0] == 429

    on_a_loop(test, **options)


def test_a_body_in_shared_memory_stays_until_its_predictor_is_past_it() -> None:
    """Its client may get a 504 long before: the next body must not be written over it."""

    async def test(bench: Bench) -> None:
        memory = BodyMemory.create()
        assert memory is not None
        worker = bench.worker()
        worker.batch_size = 2
        clients = [Client(taken(memory)), Client(taken(memory), x_gpuproof_timeout="0.1")]
        bench.ask(*clients)
        await until(lambda: clients[1].received)
        assert clients.pop().status == 504
        assert len(worker.requests) == 2
        assert memory.offset_of(memory.take(10)) == 2 * SLOT
        packed = frames.pack(frames.RESPONSE, 2, response_fields(504, Phases()))
        worker.get_buffer(0)[: len(packed)] = packed
        worker.buffer_updated(len(packed))
        assert memory.offset_of(memory.take(10)) == SLOT
        os.close(memory.descriptor)

    on_a_loop(test, max_bytes=1_000_000)


def taken(memory: BodyMemory) -> memoryview:
    view = memory.take(100_000)
    assert view is not None
    return view


def test_a_deadline_that_passes_in_the_queue_is_504() -> None:
    async def test(bench: Bench) -> None:
        bench.model.health.loaded.add(0)
        client = Client(x_gpuproof_timeout="0.05")
        bench.ask(client)
        await until(lambda: client.received)
        assert client.received[0][0] == 504
        assert not bench.model.dispatcher.queue
        assert bench.model.dispatcher.waiting_bytes == 0

    on_a_loop(test)


@pytest.mark.parametrize("asked", ["nonsense", "-1", "0", "nan", "1e99"])
def test_a_client_cannot_ask_for_more_time_than_the_server_has(asked: str) -> None:
    async def test(bench: Bench) -> None:
        bench.model.health.loaded.add(0)
        bench.ask(Client(x_gpuproof_timeout=asked))
        (call,) = bench.model.dispatcher.queue
        assert call.deadline - call.accepted == pytest.approx(60)

    on_a_loop(test)


def test_a_client_that_leaves_makes_room() -> None:
    async def test(bench: Bench) -> None:
        bench.model.health.loaded.add(0)
        client = Client()
        bench.ask(client)
        assert client.on_disconnect is not None
        client.on_disconnect()
        assert not bench.model.dispatcher.queue
        assert bench.records[0].status == 499

    on_a_loop(test)


def test_what_a_dead_worker_was_at_fails_and_what_waited_goes_on() -> None:
    async def test(bench: Bench) -> None:
        worker = bench.worker()
        worker.batch_size = 4
        clients = [Client(b"%d" % n) for n in range(3)]
        bench.ask(*clients)
        await turn()
        worker.status.publish(1, time.monotonic())
        bench.model.dispatcher.remove(worker, "it died")
        assert [client.received[0][0] if client.received else None for client in clients] == [500, None, None]
        assert [call.exchange.body for call in bench.model.dispatcher.queue] == [b"1", b"2"]
        # Twice is enough: it may be they that kill.
        second = bench.worker(2)
        second.batch_size = 4
        await turn()
        bench.model.dispatcher.remove(second, "it died")
        assert [client.received[0][0] for client in clients] == [500, 500, 500]

    on_a_loop(test)


def test_what_waited_for_a_predictor_that_hung_is_refused_in_its_time() -> None:
    async def test(bench: Bench) -> None:
        worker = bench.worker()
        worker.batch_size = 2
        hanging, waiting = Client(), Client()
        bench.ask(hanging, waiting)
        await turn()
        worker.status.publish(1, time.monotonic())
        # As the supervisor does before it kills one.
        del bench.model.dispatcher.workers[1]
        await asyncio.sleep(0.2)
        bench.model.dispatcher.remove(worker, "it hung")
        await until(lambda: waiting.received)
        assert [client.received[0][0] for client in (hanging, waiting)] == [500, 504]

    on_a_loop(test, timeout_s=0.5)


@pytest.mark.slow
def test_time_in_which_nothing_ran_counts_against_no_request() -> None:
    async def test(bench: Bench) -> None:
        worker = bench.worker()
        computed, waiting = Client(), Client()
        bench.ask(computed, waiting)
        await turn()
        worker.status.publish(1, time.monotonic())
        # So the loop finds itself after a SIGSTOP.
        time.sleep(3)
        await asyncio.sleep(0.2)
        assert not computed.received
        assert not waiting.received
        assert not bench.late
        assert not bench.hung
        await until(lambda: bench.hung and waiting.received)
        assert bench.late[0] is worker
        assert [client.received[0][0] for client in (computed, waiting)] == [504, 504]

    on_a_loop(test, timeout_s=0.6, grace_s=0.6)


def test_a_streamed_answer_takes_no_other_requests_place() -> None:
    async def test(bench: Bench) -> None:
        worker = bench.worker()
        clients = [Client() for _ in range(3)]
        bench.ask(*clients)
        await turn()
        assert list(worker.requests) == [1]
        came(worker, frames.pack(frames.STREAM_START, 1, response_fields(200, Phases())))
        bench.model.dispatcher.dispatch_soon()
        await turn()
        assert list(worker.requests) == [1, 2]
        came(worker, frames.pack(frames.STREAM_END, 1))
        bench.model.dispatcher.dispatch_soon()
        await turn()
        # The second is still being computed.
        assert list(worker.requests) == [2]

    on_a_loop(test)


def came(worker: WorkerClient, data: bytes) -> None:
    """What its worker wrote arrives."""
    worker.get_buffer(len(data))[: len(data)] = data
    worker.buffer_updated(len(data))


def test_a_slow_worker_is_reported_as_late() -> None:
    async def test(bench: Bench) -> None:
        worker = bench.worker()
        bench.ask(Client())
        await turn()
        worker.status.publish(1, time.monotonic())
        await until(lambda: bench.late)
        assert (bench.late, bench.hung) == ([worker], [])

    on_a_loop(test, timeout_s=0.01, grace_s=1_000_000)


def test_a_worker_that_takes_longer_than_the_grace_period_is_killed() -> None:
    async def test(bench: Bench) -> None:
        worker = bench.worker()
        bench.ask(Client())
        await turn()
        worker.status.publish(1, time.monotonic())
        await until(lambda: bench.hung)
        assert set(bench.hung) == {worker}

    on_a_loop(test, timeout_s=0.01, grace_s=0.01)


def test_every_end_is_recorded_once() -> None:
    async def test(bench: Bench) -> None:
        bench.worker()
        client = Client()
        bench.ask(client)
        await turn()
        (call,) = next(iter(bench.model.dispatcher.workers.values())).requests.values()
        call.respond(200, (), b"yes")
        call.reject(504, "late")
        assert client.received == [(200, b"yes")]
        assert [record.status for record in bench.records] == [200]

    on_a_loop(test)


def test_a_draining_server_is_unhealthy_but_answers_requests_on_open_connections() -> None:
    async def test(bench: Bench) -> None:
        bench.worker()
        bench.core.draining = True
        assert bench.core.unhealthy == "the server is shutting down"
        client = Client()
        bench.ask(client)
        assert not client.received

    on_a_loop(test)


def test_a_closed_server_takes_nothing_in() -> None:
    async def test(bench: Bench) -> None:
        bench.worker()
        bench.core.closed = True
        client = Client()
        bench.ask(client)
        assert client.received[0][0] == 503

    on_a_loop(test)
