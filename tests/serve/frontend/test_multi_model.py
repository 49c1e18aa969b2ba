"""Which model makes room for another, and when none can."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpuproof.serve.frontend.inference import InferenceCore
from gpuproof.serve.frontend.multi_model import ModelManager, folder_size
from gpuproof.serve.frontend.routes import Router
from gpuproof.serve.http.exchange import Exchange
from gpuproof.serve.ipc.messages import Headers
from gpuproof.serve.settings import Settings
from gpuproof.serve.workers.dispatcher import Dispatcher
from gpuproof.serve.workers.model_state import ModelHealth, ModelState
from gpuproof.serve.workers.restart_policy import Slot

GIB = 1 << 30


class Predictors:
    """Stands for the supervisor: loads at once, or fails for want of memory; counts what lives."""

    def __init__(self, core: InferenceCore, batch_size: int) -> None:
        self.core = core
        self.batch_size = batch_size
        self.models: ModelManager | None = None
        self.live: list[str] = []
        self.gone = asyncio.Event()
        """That what was stopped has ended."""
        self.gone.set()

    def serve(self, name: str, folder: Path, url: str, placed: Any) -> ModelState:
        def ignore(_worker: object) -> None: ...

        model = ModelState(name, url, Dispatcher(9, 9, 1, 1, ignore, ignore), ModelHealth(1))
        self.core.models[name] = model
        asyncio.get_running_loop().call_soon(self._end, model, folder)
        return model

    def _end(self, model: ModelState, folder: Path) -> None:
        assert self.models is not None
        slot = Slot(0, SimpleNamespace(), model, folder)  # type: ignore[arg-type]
        if len(self.live) < self.batch_size:
            self.live.append(model.name)
            model.health.loaded.add(0)
            self.models.on_loaded(slot)
        else:
            slot.out_of_memory = True
            self.models.on_abandoned(slot)

    def stop(self, model: ModelState) -> None:
        if model.name in self.live:
            self.live.remove(model.name)

    def slots_of(self, model: ModelState) -> list[Slot]:
        return [] if self.gone.is_set() else [Slot(0, SimpleNamespace(), model, Path())]  # type: ignore[arg-type]


class Store:
    """The store over those, with memory that a test sets."""

    def __init__(self, folder: Path, batch_size: int) -> None:
        self.core = InferenceCore(
            Settings(multi_model=True, models_roots=(str(folder.parent),)), lambda _record: None
        )
        self.predictors = Predictors(self.core, batch_size)
        self.memory = (100 * GIB, 100 * GIB)
        self.folder = folder
        self.models = ModelManager(self.core, self.predictors, list, lambda: self.memory, lambda _words: None)  # type: ignore[arg-type]
        self.predictors.models = self.models

    async def load(self, name: str) -> int:
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.models.load(name, str(self.folder), lambda status, _message: done.set_result(status))
        status = await asyncio.wait_for(done, 60)
        if status == 200:
            self.core.models[name].dispatcher.last_used = float(len(self.predictors.live))
        return status


class Client(Exchange):
    """Remembers how it was answered."""

    def respond(self, status: int, headers: Headers, body: bytes | memoryview) -> None:
        del body
        self.status = status
        self.headers_of_answer = dict(headers)

    def start_stream(self, status: int, headers: Headers) -> None: ...

    def send_piece(self, piece: bytes | memoryview) -> None: ...

    def end_stream(self) -> None: ...

    def abort(self) -> None: ...


def check(
    tmp_path: Path,
    test: Callable[[Store], Coroutine[Any, Any, None]],
    batch_size: int = 2,
    *,
    slow_to_go: bool = False,
) -> None:
    async def run() -> None:
        store = Store(tmp_path, batch_size)
        if slow_to_go:
            store.predictors.gone.clear()
        await test(store)

    asyncio.run(run())


def test_the_least_recently_used_makes_room_for_one_that_ran_out_of_memory(tmp_path: Path) -> None:
    async def test(store: Store) -> None:
        assert [await store.load(name) for name in ("a", "b")] == [200, 200]
        store.core.models["a"].dispatcher.last_used = 99.0
        assert await store.load("c") == 200
        assert store.predictors.live == ["a", "c"]
        assert set(store.core.models) == {"a", "c"}

    check(tmp_path, test)


def test_where_no_model_can_make_room_it_is_507(tmp_path: Path) -> None:
    async def test(store: Store) -> None:
        assert await store.load("a") == 507
        assert not store.core.models

    check(tmp_path, test, batch_size=0)


def test_a_model_larger_than_the_memory_is_507_before_it_is_started(tmp_path: Path) -> None:
    async def test(store: Store) -> None:
        store.memory = (1000, GIB)
        assert await store.load("a") == 507
        assert store.predictors.live == []

    check(tmp_path, test)


def test_under_memory_pressure_the_least_recently_used_goes(tmp_path: Path) -> None:
    async def test(store: Store) -> None:
        await store.load("a")
        await store.load("b")
        store.models.watch_memory()
        assert store.predictors.live == ["a", "b"]
        store.memory = (GIB, 100 * GIB)
        store.models.watch_memory()
        assert store.predictors.live == ["b"]

    check(tmp_path, test)


def test_a_second_load_of_a_name_is_refused_while_the_first_goes_on(tmp_path: Path) -> None:
    async def test(store: Store) -> None:
        assert sorted(await asyncio.gather(store.load("a"), store.load("a"))) == [200, 409]

    check(tmp_path, test)


def test_a_second_load_of_a_name_is_refused_while_the_first_waits_for_room(tmp_path: Path) -> None:
    async def test(store: Store) -> None:
        assert await store.load("a") == 200
        store.memory = (1000, GIB)
        first = asyncio.ensure_future(store.load("b"))
        # Its folder has been measured, and "a" goes; what it leaves free is known a moment later.
        while "a" in store.core.models:
            await asyncio.sleep(0)
        assert await store.load("b") == 409
        store.memory = (100 * GIB, 100 * GIB)
        store.predictors.gone.set()
        assert await first == 200
        assert store.predictors.live == ["b"]

    check(tmp_path, test, slow_to_go=True)


def test_nothing_is_loaded_before_it_is_known_where(tmp_path: Path) -> None:
    store = Store(tmp_path, 1)
    store.core.starting = True
    body = json.dumps({"model_name": "a", "url": str(tmp_path)}).encode()
    exchange = Client("POST", "/models", "", {}, body)
    Router(store.core, lambda: iter(()), store.models).handle(exchange)
    assert (exchange.status, exchange.headers_of_answer["retry-after"]) == (503, "1")
    assert store.core.unhealthy == "starting"


@pytest.mark.parametrize("sizes", [[], [10], [10, 20, 30]])
def test_a_models_size_is_its_files(tmp_path: Path, sizes: list[int]) -> None:
    for number, size in enumerate(sizes):
        (tmp_path / f"inner{number}").mkdir()
        (tmp_path / f"inner{number}" / "file").write_bytes(bytes(size))
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    assert folder_size(tmp_path) - (tmp_path / "dangling").lstat().st_size == sum(sizes)
