"""Adapter that runs the application on an ASGI server such as Granian, Hypercorn or uvicorn.

Source: https://asgi.readthedocs.io/en/latest/specs/www.html
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, MutableMapping
from typing import Any, Callable

from gpuproof.serve.http.exchange import Exchange
from gpuproof.serve.http.parser import Head, HttpError
from gpuproof.serve.http.state import Application
from gpuproof.serve.ipc.messages import Headers, RequestHeaders

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
_START = "http.response.start"
_BODY = "http.response.body"


class AsgiApp:
    """An ASGI application.

    Args:
        application: handles the requests; must run on the event loop of the ASGI server.
    """

    def __init__(self, application: Application) -> None:
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _handle_lifespan(receive, send)
            return
        if scope["type"] != "http":
            raise ValueError(f"ASGI scope type {scope['type']!r} is not supported")
        exchange = await self._receive_request(scope, receive)
        if exchange is None:
            return
        watching = asyncio.ensure_future(_watch_disconnect(receive, exchange))
        try:
            await exchange.deliver(send)
        finally:
            watching.cancel()

    async def _receive_request(self, scope: Scope, receive: Receive) -> AsgiExchange | None:
        headers = RequestHeaders()
        for raw_name, raw_value in scope["headers"]:
            name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        path = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1").partition("?")[0]
        query = scope.get("query_string", b"").decode("latin-1")
        length = headers.get("content-length", "")
        known = int(length) if length.isascii() and length.isdigit() else None
        admitted = self._application.admit(Head(scope["method"], path, query, headers, known, True, 1))
        try:
            if not isinstance(admitted, int):
                raise HttpError(admitted[0], admitted[1])
            body = await _body(receive, known, admitted)
        except HttpError as error:
            exchange = AsgiExchange(scope["method"], path, query, headers, b"")
            more = admitted[2] if not isinstance(admitted, int) else ()
            exchange.send_error(error.status, error.message, more)
            return exchange
        if body is None:
            return None
        exchange = AsgiExchange(scope["method"], path, query, headers, body)
        self._application.handle(exchange)
        return exchange


class AsgiExchange(Exchange):
    """One request received through an ASGI server."""

    def __init__(self, method: str, path: str, query: str, headers: RequestHeaders, body: bytes) -> None:
        super().__init__(method, path, query, headers, body)
        self._messages: asyncio.Queue[MutableMapping[str, Any] | None] = asyncio.Queue()

    def respond(self, status: int, headers: Headers, body: bytes | memoryview) -> None:
        self.start_stream(status, [*headers, ("content-length", str(len(body)))])
        self.sent = len(body)
        content = b"" if self.method == "HEAD" else bytes(body)
        self._messages.put_nowait({"type": _BODY, "body": content, "more_body": False})

    def start_stream(self, status: int, headers: Headers) -> None:
        self.status = status
        raw = [
            (name.encode("latin-1", "replace"), value.encode("latin-1", "replace")) for name, value in headers
        ]
        self._messages.put_nowait({"type": _START, "status": status, "headers": raw})

    def send_piece(self, piece: bytes | memoryview) -> None:
        self.sent += len(piece)
        self._messages.put_nowait({"type": _BODY, "body": bytes(piece), "more_body": True})

    def end_stream(self) -> None:
        self._messages.put_nowait({"type": _BODY, "body": b"", "more_body": False})

    def abort(self) -> None:
        self._messages.put_nowait(None)

    def disconnect(self) -> None:
        """Report that the client has disconnected."""
        callback, self.on_disconnect = self.on_disconnect, None
        if callback is not None:
            callback()
        self._messages.put_nowait({"type": _BODY, "body": b"", "more_body": False})

    async def deliver(self, send: Send) -> None:
        """Send the response as it is produced."""
        more = True
        while more:
            message = await self._messages.get()
            if message is None:
                raise ConnectionAbortedError("the handler failed while streaming its response")
            await send(message)
            more = message.get("more_body", True)
            if message["type"] == _BODY and more and self.on_pieces_read is not None:
                self.on_pieces_read(1)


async def _body(receive: Receive, length: int | None, allowed: int) -> bytes | None:
    if length is not None and length > allowed:
        raise HttpError(413, f"the body has {length} bytes; the limit is {allowed}")
    pieces: list[bytes] = []
    received, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        pieces.append(message.get("body", b""))
        received += len(pieces[-1])
        if received > allowed:
            raise HttpError(413, f"the body is longer than the limit of {allowed} bytes")
        more = message.get("more_body", False)
    return b"".join(pieces)


async def _watch_disconnect(receive: Receive, exchange: AsgiExchange) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    exchange.disconnect()


async def _handle_lifespan(receive: Receive, send: Send) -> None:
    while True:
        kind = (await receive())["type"]
        await send({"type": f"{kind}.complete"})
        if kind == "lifespan.shutdown":
            return
