"""An HTTP server on loopback that keeps what is sent to it, and answers as a test wants."""

from __future__ import annotations

import http.server
import json
import threading
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self


@dataclass(frozen=True)
class Received:
    """A request; names of headers in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Receiver:
    """The server, in threads.

    Args:
        statuses: of its responses; the last one is repeated. Without any, it never responds.
        location: of redirects.
    """

    def __init__(self, *statuses: int, location: str | None = None) -> None:
        self.requests: list[Received] = []
        self._left = list(statuses)
        self._location = location
        self._closing = threading.Event()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                headers = {name.lower(): value for name, value in self.headers.items()}
                outer.requests.append(Received(self.command, self.path, headers, body))
                outer._respond(self)

            def do_PUT(self) -> None:
                self.do_POST()

            def log_message(self, *_: Any) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        """Stop listening."""
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _respond(self, handler: http.server.BaseHTTPRequestHandler) -> None:
        if not self._left:
            self._closing.wait()
            return
        handler.send_response(self._left.pop(0) if len(self._left) > 1 else self._left[0])
        if self._location is not None:
            handler.send_header("Location", self._location)
        handler.send_header("Content-Length", "0")
        handler.end_headers()
