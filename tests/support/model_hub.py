"""A Hugging Face Hub on loopback, with the files of one model."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_COMMIT = "0" * 40


class ModelHub:
    """What the Hub was asked for.

    Attributes:
        url: for `HF_ENDPOINT`.
        paths: of all requests.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.paths: list[str] = []


@contextmanager
def model_hub(name: str, files: Mapping[str, str]) -> Iterator[ModelHub]:
    """Serve the files of a model; all others are missing."""
    served = {
        f"/{name}/resolve/{revision}/{file}": text
        for file, text in files.items()
        for revision in ("main", _COMMIT)
    }

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self._answer(body=False)

        def do_GET(self) -> None:
            self._answer(body=True)

        def _answer(self, *, body: bool) -> None:
            hub.paths.append(self.path)
            if self.path.startswith(f"/api/models/{name}"):
                content: bytes | None = json.dumps({"id": name, "sha": _COMMIT, "siblings": []}).encode()
            else:
                text = served.get(self.path)
                content = None if text is None else text.encode()
            self.send_response(404 if content is None else 200)
            self.send_header("X-Repo-Commit", _COMMIT)
            if content is None:
                self.send_header("X-Error-Code", "EntryNotFound")
                content = b""
            else:
                self.send_header("ETag", f'"{hashlib.sha256(content).hexdigest()}"')
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if body:
                self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hub = ModelHub(f"http://127.0.0.1:{server.server_address[1]}")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
