"""One HTTP request and the way back to its client: what every HTTP server gives to the front."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Callable

from gpuproof.serve.ipc.messages import Headers, RequestHeaders


class Exchange(ABC):
    """A request that was received whole. Everything here is called on the event loop and returns at once.

    Args:
        method: `GET`, `POST` …
        path: without the query, as it was sent.
        query: what followed the `?`.
        headers: names in lower case; several of one name joined by `, `.
        body: the payload, whole.
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
        self.on_gone: Callable[[], None] | None = None
        """Called once when the client has gone before its answer was complete."""
        self.on_read: Callable[[int], None] | None = None
        """Called when the client has taken pieces of a streamed answer: how many."""

    @abstractmethod
    def answer(self, status: int, headers: Headers, body: bytes | memoryview) -> None:
        """Send the whole answer; `Content-Length` is added. Ignored when the client has gone."""

    @abstractmethod
    def begin(self, status: int, headers: Headers) -> None:
        """Send the head of a streamed answer."""

    @abstractmethod
    def piece(self, piece: bytes | memoryview) -> None:
        """Send a piece; `on_read` tells when the client has taken it."""

    @abstractmethod
    def end(self) -> None:
        """The streamed answer is complete."""

    @abstractmethod
    def abort(self) -> None:
        """The streamed answer cannot be completed: the client must see that it is cut short."""
