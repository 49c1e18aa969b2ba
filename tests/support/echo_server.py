"""Runs GPUproof's HTTP server with an echo application, on an event loop in a separate thread."""

from __future__ import annotations

import asyncio
import socket
import threading
from concurrent.futures import Future
from typing import Any

from gpuproof.serve.http.exchange import Exchange
from gpuproof.serve.http.parser import Head
from gpuproof.serve.http.server import HttpServer
from gpuproof.serve.http.state import Limits
from support.cli_sandbox import until

ALLOWED = 100_000
"""Bytes of a body."""


class Echo:
    """Echoes bodies on `/echo`; keeps the requests to `/wait` and `/stream` for the test to answer."""

    def __init__(self, allowed: int) -> None:
        self.allowed = allowed
        self.waiting: list[Exchange] = []
        self.handled = 0
        self.gone = 0
        self.read = 0

    def admit(self, head: Head) -> Any:
        return (404, "not here", ()) if head.path == "/none" else self.allowed

    def handle(self, exchange: Exchange) -> None:
        self.handled += 1
        if exchange.path in ("/wait", "/stream"):
            exchange.on_disconnect = self._gone
            exchange.on_pieces_read = self._read
            self.waiting.append(exchange)
        else:
            kind = exchange.headers.get("x-answer", "text/plain")
            exchange.respond(200, (("content-type", kind),), exchange.body or exchange.path.encode())

    def _gone(self) -> None:
        self.gone += 1

    def _read(self, pieces: int) -> None:
        self.read += pieces


class Running:
    """The server with its event loop in a separate thread."""

    def __init__(
        self, limits: Limits | None = None, allowed: int = ALLOWED, capacity: int | None = None
    ) -> None:
        self.logged: list[str] = []
        self.front = Echo(allowed)
        self.loop = asyncio.new_event_loop()
        self.server = HttpServer(self.front, limits, log=self.logged.append, capacity=capacity)
        started: Future[int] = Future()
        self.thread = threading.Thread(target=self._run, args=(started,))
        self.thread.start()
        self.port = started.result(60)

    def _run(self, started: Future[int]) -> None:
        asyncio.set_event_loop(self.loop)
        started.set_result(self.loop.run_until_complete(self.server.start("127.0.0.1", 0)))
        self.loop.run_forever()

    def do(self, function: Any, *arguments: Any) -> None:
        """Call something on the loop, and wait until that is done."""
        done: Future[Any] = Future()
        self.loop.call_soon_threadsafe(lambda: done.set_result(function(*arguments)))
        done.result(60)

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=300)

    def close(self) -> None:
        self.do(self.server.close)
        until(lambda: not self.server.connections, "the connections to close")
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()
