"""The routes of the dashboard: documents, their content as JSON, and the events of runs."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import threading
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar, cast

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from gpuproof.app.dashboard import (
    WatchedRuns,
    cost_page,
    error_page,
    live_page,
    plans_page,
    runs_document,
)
from gpuproof.app.run_list import RunList, list_runs
from gpuproof.backends.base import Run
from gpuproof.backends.registry import BACKENDS, load_backend
from gpuproof.cli.dashboard.access import Access, Keys, is_own_origin, is_same
from gpuproof.cli.dashboard.documents import asset, frame_document
from gpuproof.errors import ExitCode, GPUproofError, RunNotFound, UsageError
from gpuproof.report import Page, page_json, render

_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_LIST_S = 4.0
"""How long a list of runs is shown to other tabs, too."""
_PAGE_S = 0.5
"""The shortest time between two pages of a run."""
_WAIT_S = 1.0
_MOST_COMPARED = 8
_GROUPINGS = ("job", "day", "type", "backend")
_AGES = ("1d", "7d", "30d", "90d", "365d")
_TITLES = {"/api/runs": "Runs", "/api/compare": "Comparison", "/api/costs": "Costs", "/api/plans": "Plans"}
_FORM_KEY = "X-GPUproof-Form-Key"
T = TypeVar("T")


@dataclass
class Dashboard:
    """What the routes share.

    Args:
        keys: that browsers have to know.
        allow_stop: whether runs can be stopped.
        on: only runs of this backend.
        region: of AWS; the user's default if None.
        is_ending: whether the server ends, so that streams have to.
    """

    keys: Keys
    allow_stop: bool = False
    on: str | None = None
    region: str | None = None
    is_ending: Callable[[], bool] = lambda: False
    watched: WatchedRuns = field(default_factory=WatchedRuns)
    _list: tuple[float, RunList] | None = None
    _list_lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def application(self) -> Starlette:
        """The ASGI application. Without a token or cookie, no route is reached."""
        frames = {
            "/": "runs",
            "/runs/{backend}/{run_id}": "run",
            "/compare": "compare",
            "/costs": "costs",
            "/plans": "plans",
        }
        return Starlette(
            routes=[
                *(Route(path, partial(self._frame, page)) for path, page in frames.items()),
                Route("/assets/{name}", self._asset),
                Route("/api/runs", self._runs),
                Route("/api/compare", self._compare),
                Route("/api/costs", self._costs),
                Route("/api/plans", self._plans),
                Route("/api/runs/{backend}/{run_id}/events", self._events),
                Route("/runs/{backend}/{run_id}/report.html", self._report),
                Route("/api/runs/{backend}/{run_id}/stop", self._stop, methods=["POST"]),
            ],
            exception_handlers={GPUproofError: self._error, Exception: self._bug},
        )

    async def _frame(self, page: str, request: Request) -> Response:
        del request
        text = frame_document(page, form_key=self.keys.form, allow_stop=self.allow_stop)
        return Response(text, media_type="text/html")

    async def _asset(self, request: Request) -> Response:
        found = asset(request.path_params["name"])
        if found is None:
            return PlainTextResponse("There is no such file.\n", 404)
        return Response(found[0], media_type=found[1])

    async def _runs(self, request: Request) -> Response:
        del request
        async with self._list_lock:
            if self._list is None or time.monotonic() - self._list[0] > _LIST_S:
                found = await in_thread(partial(list_runs, self.on, self.region))
                self._list = time.monotonic(), found
            return JSONResponse(runs_document(self._list[1]))

    async def _compare(self, request: Request) -> Response:
        from gpuproof.app.compare import CompareRequest, compare_runs
        from gpuproof.report.compare_report import compare_page

        names = request.query_params.getlist("run")
        if not 2 <= len(names) <= _MOST_COMPARED:
            raise UsageError(
                f"A comparison has 2 to {_MOST_COMPARED} runs.", remedy="Choose them in the list of runs."
            )

        def make() -> Page:
            runs = [self._find(*name.partition("/")[::2]) for name in names]
            return compare_page(compare_runs(CompareRequest(tuple((run,) for run in runs))))

        return JSONResponse(page_json(await in_thread(make)))

    async def _costs(self, request: Request) -> Response:
        from gpuproof.app.account.cost import collect_cost
        from gpuproof.units import Duration

        by = request.query_params.get("by", _GROUPINGS[0])
        since = request.query_params.get("since", "30d")
        if by not in _GROUPINGS or since not in _AGES:
            raise UsageError(f"Costs are not grouped by '{by}' since '{since}'.", remedy="Open /costs.")
        grouping = cast("Any", by)
        make = partial(collect_cost, Duration.parse(since), grouping, self.region)
        return JSONResponse(page_json(cost_page(await in_thread(make))))

    async def _plans(self, request: Request) -> Response:
        from gpuproof.planning.history.store import HistoryStore

        del request
        return JSONResponse(page_json(plans_page(await in_thread(HistoryStore().read))))

    async def _events(self, request: Request) -> Response:
        names = request.path_params["backend"], request.path_params["run_id"]
        return StreamingResponse(self._pages(request, *names), media_type="text/event-stream")

    async def _pages(self, request: Request, backend: str, run_id: str) -> AsyncIterator[str]:
        """The page of a run whenever it changes, and in the end its report."""
        try:
            run = await in_thread(partial(self._find, backend, run_id))
            has_ended = (await in_thread(lambda: run.record)).has_ended
            if not has_ended:
                watched = await in_thread(partial(self.watched.of, backend, run_id, lambda: run))
                version = 0
                while not (self.is_ending() or await request.is_disconnected()):
                    number, snapshot = await in_thread(partial(watched.newer, version, _WAIT_S))
                    if snapshot is not None and snapshot.outcome is not None:
                        has_ended = True
                        break
                    if snapshot is None or number == version:
                        yield ": no change\n\n"  # a connection that is gone is noticed when something is sent
                        continue
                    version = number
                    yield _event("page", page_json(await in_thread(partial(live_page, snapshot))))
                    await asyncio.sleep(_PAGE_S)
            if has_ended:
                yield _event("page", page_json(await in_thread(partial(self._report_page, backend, run_id))))
                yield _event("end", {})
        except GPUproofError as error:
            yield _event("page", page_json(error_page(run_id, error)))
            yield _event("end", {})
        except Exception:  # noqa: BLE001 - the status of the response was sent long ago
            traceback.print_exc()
            yield _event("page", page_json(error_page(run_id, _internal())))
            yield _event("end", {})

    async def _report(self, request: Request) -> Response:
        backend, run_id = self._names(request)

        def make() -> str:
            return render(self._report_page(backend, run_id))

        text = await in_thread(make)
        name = f'attachment; filename="{run_id}.html"'
        return Response(text, media_type="text/html", headers={"Content-Disposition": name})

    async def _stop(self, request: Request) -> Response:
        backend, run_id = self._names(request)
        if not self.allow_stop:
            return _refused("The dashboard was started without --allow-stop.")
        if not is_own_origin(request.headers) or not is_same(
            request.headers.get(_FORM_KEY, ""), self.keys.form
        ):
            return _refused("The request does not come from a page of this dashboard.")

        def stop() -> None:
            self._find(backend, run_id).stop()

        await in_thread(stop)
        return JSONResponse({"version": 1, "id": run_id, "is_stopping": True}, 202)

    def _report_page(self, backend: str, run_id: str) -> Page:
        """The report on a run; blocks."""
        from gpuproof.app.report import ReportRequest, report

        run = self._find(backend, run_id)
        return report(ReportRequest(run.id, backend, self.region)).page

    def _names(self, request: Request) -> tuple[str, str]:
        return _checked(request.path_params["backend"], request.path_params["run_id"])

    def _find(self, backend: str, run_id: str) -> Run:
        """The run of exactly this id; blocks."""
        backend, run_id = _checked(backend, run_id)
        store = load_backend(backend).open(region=self.region).runs()
        record = store.find(run_id)
        if record.id != run_id:
            raise RunNotFound(f"There is no run {run_id}.", remedy="The list of runs has all of them.")
        return store.run(record)

    async def _error(self, request: Request, error: Exception) -> Response:
        """An error that the user can fix, as the page that was asked for."""
        assert isinstance(error, GPUproofError)
        title = request.path_params.get("run_id") or _TITLES.get(request.url.path, "Not shown")
        code = 404 if error.exit_code == ExitCode.USAGE else 502
        if request.url.path.startswith("/api/"):
            return JSONResponse(page_json(error_page(title, error)), code)
        return PlainTextResponse(f"{error.message}\n{error.remedy or ''}\n", code)

    async def _bug(self, request: Request, error: Exception) -> Response:
        traceback.print_exception(error, file=sys.stderr)
        return await self._error(request, _internal())


def guarded(dashboard: Dashboard) -> Access:
    """The application behind the check of each request."""
    return Access(dashboard.application(), dashboard.keys)


def in_thread(function: Callable[[], T]) -> Awaitable[T]:
    """The result of a function that blocks. Its thread does not keep the process from ending."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        if future.cancelled():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(cast("T", result))

    def work() -> None:
        result: T | None = None
        error: BaseException | None = None
        try:
            result = function()
        except BaseException as found:  # noqa: BLE001 - raised again where the result is awaited
            error = found
        with suppress(RuntimeError):  # the loop is closed: nothing waits any more
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=work, daemon=True).start()
    return future


def _checked(backend: str, run_id: str) -> tuple[str, str]:
    if backend not in BACKENDS or not _RUN_ID.fullmatch(run_id) or ".." in run_id:
        raise RunNotFound("There is no such run.", remedy="The list of runs has all of them.")
    return backend, run_id


def _internal() -> GPUproofError:
    return GPUproofError("An internal error.", remedy="The terminal of `gpuproof dashboard` shows it.")


def _refused(reason: str) -> Response:
    return JSONResponse({"version": 1, "error": reason}, 403)


def _event(name: str, document: dict[str, Any]) -> str:
    return f"event: {name}\ndata: {json.dumps(document, separators=(',', ':'), allow_nan=False)}\n\n"
