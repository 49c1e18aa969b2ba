"""Open-loop and closed-loop load."""

from __future__ import annotations

import asyncio
import random
import selectors
import socket
import ssl
import time
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from gpuproof.errors import GPUproofError
from gpuproof.loadtest.connections import ConnectionPool
from gpuproof.loadtest.http_parser import MalformedResponse, ResponseReader
from gpuproof.loadtest.result import Result, succeeded
from gpuproof.loadtest.target import Target

Arrivals = Literal["poisson", "constant"]
"""`poisson`: independent arrivals, as from many users; `constant`: evenly spaced."""

MAX_CONNECTIONS = 512
"""`select` supports only file descriptors below 1,024, which include all open files of the process."""
_MAX_BURST = 16
"""Requests sent in a row when behind schedule, before responses are read again."""
_KEPT_BYTES = 400


@dataclass(frozen=True)
class Load:
    """How to load a server.

    Args:
        connections: maximum number of connections, 1 to 512; the time that requests wait for one counts as latency.
        warm_up: seconds of load at the start that do not count.
        timeout: seconds after which a request fails.
    """

    connections: int = 128
    warm_up: float = 1.0
    timeout: float = 10.0
    arrivals: Arrivals = "poisson"
    seed: int = 0


def open_loop(target: Target, rate: float, seconds: float, load: Load | None = None) -> Result:
    """Send requests on schedule, regardless of earlier responses.

    Latency counts from the due time of a request, so that it includes delays of requests that a stalled server kept from
    being sent: Gil Tene's correction of "coordinated omission", as in wrk2. Ctrl-C ends the load early, with the result so
    far.

    Args:
        rate: requests per second.
    """
    return _run(_open_loop(target, rate, seconds, load or Load()))


def closed_loop(
    target: Target, clients: int, count: int, load: Load | None = None, max_seconds: float = 60.0
) -> Result:
    """Run clients that each send a request, wait for the response and send the next, until `count` requests have ended.

    Args:
        clients: number of connections, 1 to 512.
        count: total number of requests after the warm-up.
        max_seconds: maximum duration, regardless of the number of requests.
    """
    return _run(_closed_loop(target, clients, count, load or Load(), max_seconds))


@dataclass(frozen=True)
class ProbeResponse:
    """A server's response to one request.

    Args:
        body: first bytes of the body.
    """

    status: int
    body: bytes
    seconds: float


def probe(target: Target, timeout: float = 30.0) -> ProbeResponse:
    """Send one request and wait for the response. Raises GPUproofError if there is none."""
    began = time.monotonic()
    try:
        with socket.create_connection((target.host, target.port), timeout=timeout) as raw:
            if not target.tls:
                reader = _exchange(raw, target)
            else:
                with ssl.create_default_context().wrap_socket(raw, server_hostname=target.host) as tls:
                    reader = _exchange(tls, target)
    except ConnectionRefusedError as error:
        raise GPUproofError(
            f"No server listens on {target.host}:{target.port}.",
            remedy="Start the server first: gpuproof serve MODEL",
        ) from error
    except TimeoutError as error:
        raise GPUproofError(
            f"{target.url} did not respond to a request within {timeout:g} s.",
            remedy="Check the server's log.",
        ) from error
    except (OSError, MalformedResponse) as error:
        raise GPUproofError(
            f"Cannot send a request to {target.url}: {error}.",
            remedy="Check host and port, and the server's log.",
        ) from error
    return ProbeResponse(reader.status, reader.body, time.monotonic() - began)


def due_times(rate: float, seconds: float, arrivals: Arrivals, seed: int = 0) -> Iterator[float]:
    """Due times in seconds after the start, in ascending order and below `seconds`.

    Args:
        rate: average number of requests per second.
    """
    if arrivals == "constant":
        for number in range(int(rate * seconds)):
            yield number / rate
        return
    dice = random.Random(seed)
    due = dice.expovariate(rate)
    while due < seconds:
        yield due
        due += dice.expovariate(rate)


def _exchange(connection: socket.socket, target: Target) -> ResponseReader:
    reader = ResponseReader(keep=_KEPT_BYTES)
    connection.sendall(target.request())
    while data := connection.recv(65536):
        if reader.feed(data):
            return reader
    if not reader.end():
        raise MalformedResponse("the server closed the connection in the middle of a response")
    return reader


async def _open_loop(target: Target, rate: float, seconds: float, load: Load) -> Result:
    loop = asyncio.get_running_loop()
    result = Result(rate=rate)
    last = begin = loop.time()

    def ended(due: float, now: float, outcome: str) -> None:
        nonlocal last
        if due >= begin:
            last = max(last, now)
            _count(result, now - due, outcome)

    pool = ConnectionPool(target, load.connections, load.timeout, ended)
    busy = time.process_time()
    started = loop.time()
    try:
        await pool.open(load.connections)
        busy, started = time.process_time(), loop.time()
        last = begin = started + load.warm_up
        due_in = due_times(rate, load.warm_up + seconds, load.arrivals, load.seed)
        schedule = _Schedule(pool, (started + due for due in due_in), result, begin)
        await schedule.sent_all
        while pool.outstanding:
            await asyncio.sleep(0.005)
    except asyncio.CancelledError:
        result.interrupted = True
    result.seconds = max(last - begin, 0.0 if result.interrupted else seconds)
    result.cpu_share = _share(busy, started, loop.time())
    pool.close()
    await asyncio.sleep(0)
    return result


class _Schedule:
    """Submits requests when they are due. Uses timers of the event loop: a sleeping task costs three times as much."""

    def __init__(self, pool: ConnectionPool, due: Iterator[float], result: Result, begin: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._pool = pool
        self._due = due
        self._result = result
        self._begin = begin
        self.sent_all = self._loop.create_future()
        self._next = next(due, None)
        self._loop.call_soon(self._tick)

    def _tick(self) -> None:
        for _ in range(_MAX_BURST):
            due, now = self._next, self._loop.time()
            if self.sent_all.cancelled():
                return
            if due is None:
                self.sent_all.set_result(None)
                return
            if due > now:
                self._loop.call_at(due, self._tick)
                return
            if due >= self._begin:
                self._result.lag.record(now - due)
            self._pool.submit(due)
            self._next = next(self._due, None)
        self._loop.call_soon(self._tick)


async def _closed_loop(target: Target, clients: int, count: int, load: Load, max_seconds: float) -> Result:
    loop = asyncio.get_running_loop()
    result = Result()
    done = loop.create_future()
    begin = last = loop.time()

    def ended(due: float, now: float, outcome: str) -> None:
        nonlocal last
        if due >= begin and (result.interrupted or not done.done()):
            last = now
            _count(result, now - due, outcome)
        if done.done():
            return
        if result.sent == count:
            done.set_result(None)
        else:
            # Deferred: if connections are refused, this would recurse.
            loop.call_soon(send_again)

    def send_again() -> None:
        if not done.done():
            pool.submit(loop.time())

    def time_over() -> None:
        if not done.done():
            done.set_result(None)

    pool = ConnectionPool(target, clients, load.timeout, ended)
    busy, started = time.process_time(), loop.time()
    try:
        await pool.open(clients)
        busy, started = time.process_time(), loop.time()
        last = begin = started + load.warm_up
        for _ in range(clients):
            pool.submit(loop.time())
        loop.call_later(load.warm_up + max_seconds, time_over)
        await done
    except asyncio.CancelledError:
        result.interrupted = True
    result.seconds = last - begin
    result.cpu_share = _share(busy, started, loop.time())
    pool.close()
    await asyncio.sleep(0)
    return result


def _count(result: Result, seconds: float, outcome: str) -> None:
    result.outcomes[outcome] += 1
    if succeeded(outcome) or outcome in ("timeout", "unanswered"):
        result.latency.record(seconds)


def _share(busy: float, started: float, now: float) -> float:
    return (time.process_time() - busy) / (now - started) if now > started else 0.0


def _run(work: Coroutine[Any, Any, Result]) -> Result:
    # `epoll` has a resolution of a millisecond, by which every request could be late; `select` does not.
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selectors.SelectSelector())) as runner:
        return runner.run(work)
