"""Load in an open and in a closed loop."""

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
from gpuproof.loadtest.connections import Pool
from gpuproof.loadtest.http_parser import AnswerReader, Malformed
from gpuproof.loadtest.result import Result, succeeded
from gpuproof.loadtest.target import Target

Arrivals = Literal["poisson", "constant"]
"""`poisson`: independent of each other, as those of many users are; `constant`: evenly spaced."""

MOST_CONNECTIONS = 512
"""`select` takes file numbers below 1,024 only, and everybody's sockets and files count."""
_AT_ONCE = 16
"""Requests sent in a row when the schedule is behind, before answers are read again."""
_SHOWN = 400


@dataclass(frozen=True)
class Load:
    """How to load a server.

    Args:
        connections: at most, 1 to 512; requests that find none free wait, and their waiting counts.
        warm_up: seconds of load at first, that are not counted.
        timeout: seconds after which a request is given up.
        arrivals: how due times are spread.
        seed: of the due times.
    """

    connections: int = 128
    warm_up: float = 1.0
    timeout: float = 10.0
    arrivals: Arrivals = "poisson"
    seed: int = 0


def open_loop(target: Target, rate: float, seconds: float, load: Load | None = None) -> Result:
    """Send requests on schedule, whether or not earlier ones were answered.

    Latencies count from when a request was due, so that a server which stalls is charged for every request that it
    kept from being sent: Gil Tene's correction of "coordinated omission", as wrk2 has it. Ctrl-C ends it early; the
    result then holds what there was.

    Args:
        rate: requests a second.
        seconds: how long, after the warm-up.
    """
    return _run(_open_loop(target, rate, seconds, load or Load()))


def closed_loop(
    target: Target, clients: int, count: int, load: Load | None = None, most_seconds: float = 60.0
) -> Result:
    """Clients that each send, wait for the answer and send again, until so many were counted.

    Args:
        clients: connections, 1 to 512.
        count: requests in all, after the warm-up.
        most_seconds: it ends then, however few were counted.
    """
    return _run(_closed_loop(target, clients, count, load or Load(), most_seconds))


@dataclass(frozen=True)
class Answer:
    """A server's answer to one request.

    Args:
        status: of HTTP.
        body: its first bytes.
        seconds: how long it took, with the connecting.
    """

    status: int
    body: bytes
    seconds: float


def probe(target: Target, timeout: float = 30.0) -> Answer:
    """Send one request and wait for the answer; raises GPUproofError where there is none."""
    began = time.monotonic()
    try:
        with socket.create_connection((target.host, target.port), timeout=timeout) as raw:
            if not target.tls:
                reader = _ask(raw, target)
            else:
                with ssl.create_default_context().wrap_socket(raw, server_hostname=target.host) as tls:
                    reader = _ask(tls, target)
    except ConnectionRefusedError as error:
        raise GPUproofError(
            f"Nobody listens at {target.host}:{target.port}.",
            remedy="Start the server first: gpuproof serve MODEL",
        ) from error
    except TimeoutError as error:
        raise GPUproofError(
            f"{target.url} did not answer one request within {timeout:g} s.",
            remedy="Look into the server's log.",
        ) from error
    except (OSError, Malformed) as error:
        raise GPUproofError(
            f"{target.url} cannot be asked: {error}.", remedy="Check host and port, and the server's log."
        ) from error
    return Answer(reader.status, reader.body, time.monotonic() - began)


def due_times(rate: float, seconds: float, arrivals: Arrivals, seed: int = 0) -> Iterator[float]:
    """Seconds after the beginning, ascending, below `seconds`.

    Args:
        rate: requests a second on average.
        seed: the same one gives the same times.
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


def _ask(connection: socket.socket, target: Target) -> AnswerReader:
    reader = AnswerReader(keep=_SHOWN)
    connection.sendall(target.request())
    while data := connection.recv(65536):
        if reader.feed(data):
            return reader
    if not reader.end():
        raise Malformed("it closed the connection in the middle of an answer")
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

    pool = Pool(target, load.connections, load.timeout, ended)
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
    """Submits requests when they are due, by timers of the loop: a task that sleeps costs three times as much."""

    def __init__(self, pool: Pool, due: Iterator[float], result: Result, begin: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._pool = pool
        self._due = due
        self._result = result
        self._begin = begin
        self.sent_all = self._loop.create_future()
        self._next = next(due, None)
        self._loop.call_soon(self._tick)

    def _tick(self) -> None:
        for _ in range(_AT_ONCE):
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


async def _closed_loop(target: Target, clients: int, count: int, load: Load, most_seconds: float) -> Result:
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
            # Not at once: where connecting is refused, this would call itself.
            loop.call_soon(again)

    def again() -> None:
        if not done.done():
            pool.submit(loop.time())

    def time_over() -> None:
        if not done.done():
            done.set_result(None)

    pool = Pool(target, clients, load.timeout, ended)
    busy, started = time.process_time(), loop.time()
    try:
        await pool.open(clients)
        busy, started = time.process_time(), loop.time()
        last = begin = started + load.warm_up
        for _ in range(clients):
            pool.submit(loop.time())
        loop.call_later(load.warm_up + most_seconds, time_over)
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
    # `epoll` counts in whole milliseconds, and would send every request up to one too late; `select` does not.
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selectors.SelectSelector())) as runner:
        return runner.run(work)
