"""S3 on loopback: moto's server with its requests counted, and a server that answers as badly as a test wants."""

from __future__ import annotations

import http.server
import secrets
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_DEFAULT_REGION": "us-east-1",
    # Nothing of the user's own, and no look for a role where none can be.
    "AWS_CONFIG_FILE": "/nonexistent",
    "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent",
    "AWS_EC2_METADATA_DISABLED": "true",
}


class MotoServer:
    """Moto's server on a free port; ready when made."""

    def __init__(self) -> None:
        from moto.server import ThreadedMotoServer

        self._server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        self._server.start()
        host, port = self._server.get_host_and_port()
        self.url = f"http://{host}:{port}"
        self.requests: list[str] = []
        """Method and path of each request so far."""
        self._answer = self._server._server.app
        self._server._server.app = self._counted

    def bucket(self) -> Bucket:
        """A new bucket."""
        import boto3

        name = f"bucket-{secrets.token_hex(4)}"
        client = boto3.client(
            "s3",
            endpoint_url=self.url,
            region_name="us-east-1",
            aws_access_key_id="testing",
            aws_secret_access_key="testing",
        )
        client.create_bucket(Bucket=name)
        return Bucket(name, client, self)

    def stop(self) -> None:
        self._server.stop()

    def _counted(self, environ: dict[str, Any], start_response: Any) -> Any:
        self.requests.append(f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}")
        return self._answer(environ, start_response)


@dataclass
class Bucket:
    """A bucket of moto's, to fill and to look at."""

    name: str
    client: Any
    server: MotoServer

    def put(self, **objects: bytes) -> None:
        """Objects by key; a test writes other keys as `**{"a/b": b"..."}`."""
        for key, content in objects.items():
            self.client.put_object(Bucket=self.name, Key=key, Body=content)

    def put_weird(self, key: str, content: bytes) -> None:
        """An object whose key no HTTP client would leave as it is, such as `a/../b`."""
        from moto.backends import get_backend

        backend = get_backend("s3")["123456789012"]["aws"]
        backend.put_object(self.name, key, content)

    def downloads(self) -> list[str]:
        """Keys of the objects that were requested since the last call."""
        marker = f"GET /{self.name}/"
        asked = [line.removeprefix(marker) for line in self.server.requests if line.startswith(marker)]
        self.server.requests.clear()
        return sorted(key for key in asked if key)


@dataclass
class Reply:
    """A response of the faulty server."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    sends: int | None = None
    """Bytes of the body after which the connection breaks off."""


Answer = Callable[[str, Mapping[str, str], Mapping[str, str]], Reply]
"""Gets an object's key (empty for a listing), the query and the headers."""


class BadServer:
    """A server that stands for S3 and answers as a test wants."""

    def __init__(self, answer: Answer) -> None:
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                split = urlsplit(self.path)
                query = {key: values[0] for key, values in parse_qs(split.query).items()}
                key = split.path.removeprefix("/").partition("/")[2]
                reply = answer(key, query, dict(self.headers))
                self.send_response(reply.status)
                for name, value in {**reply.headers, "Content-Length": str(len(reply.body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(reply.body[: reply.sends])
                if reply.sends is not None:
                    self.close_connection = True

            def do_PUT(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                self.do_GET()

            def log_message(self, *_: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def refusal(code: str, status: int, message: str = "said the server") -> Reply:
    """An error in S3's form."""
    body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{message}</Message></Error>"
    return Reply(status, body.encode(), {"Content-Type": "application/xml"})


def listing(objects: Mapping[str, bytes]) -> Reply:
    """A ListObjectsV2 answer of one page."""
    items = "".join(
        f"<Contents><Key>{key}</Key><Size>{len(content)}</Size><ETag>&quot;{len(content)}&quot;</ETag>"
        "<LastModified>2026-01-02T03:04:05.000Z</LastModified></Contents>"
        for key, content in objects.items()
    )
    body = (
        f"<?xml version='1.0'?><ListBucketResult><IsTruncated>false</IsTruncated>{items}</ListBucketResult>"
    )
    return Reply(200, body.encode(), {"Content-Type": "application/xml"})
