"""One HTTP request and its response: the interface between an HTTP server and the application."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from typing import Callable

from gpuproof.serve.ipc.messages import Headers, RequestHeaders

JSON_HEADERS: Headers = (("content-type", "application/json"),)


class Exchange(ABC):
    """A completely received request. All methods are called on the event loop and return immediately.

    Args:
        method: `GET`, `POST` …
        path: the path as sent, without the query.
        query: the part after the `?`.
        headers: names in lower case; repeated headers are joined by `, `.
    """

    def __init__(
        self, method: str, path: str, query: str, headers: RequestHeaders, body: bytes | memoryview
    ) -> None:
        self.method = method
        self.path = path
        self.query = query
        self.headers = headers
        self.body = body
        self.status = 0
        self.sent = 0
        self.on_disconnect: Callable[[], None] | None = None
        """Called once if the client disconnects before its response is complete."""
        self.on_pieces_read: Callable[[int], None] | None = None
        """Called with the number of pieces of a streamed response that the client has read."""

    @abstractmethod
    def respond(self, status: int, headers: Headers, body: bytes | memoryview) -> None:
        """Send a complete response; adds `Content-Length`. Does nothing if the client has disconnected."""

    @abstractmethod
    def start_stream(self, status: int, headers: Headers) -> None:
        """Send the head of a streamed response."""

    @abstractmethod
    def send_piece(self, piece: bytes | memoryview) -> None:
        """Send a piece of a streamed response; `on_pieces_read` is called when the client has read it."""

    @abstractmethod
    def end_stream(self) -> None:
        """Complete the streamed response."""

    @abstractmethod
    def abort(self) -> None:
        """Abort the streamed response in a way that the client sees it as truncated."""

    def send_error(self, status: int, message: str, headers: Headers = ()) -> None:
        """Send an error response with the body `{"error": message}`."""
        self.respond(status, (*JSON_HEADERS, *headers), error_body(message))


def error_body(message: str) -> bytes:
    """The JSON body of an error response: `{"error": "…"}`."""
    return json.dumps({"error": message}).encode()
