"""The server to load, and the request to send."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from gpuproof.errors import UsageError

DEFAULT_PATH = "/invocations"
"""The path that SageMaker calls on model servers ("Use Your Own Inference Code" in its developer guide)."""


@dataclass(frozen=True)
class Target:
    """A server and the request to send to it.

    Args:
        port: 1 to 65535.
        path: including the query, if any.
        body: the payload; None for a GET request.
        tls: whether to use HTTPS.
    """

    host: str
    port: int
    path: str = DEFAULT_PATH
    body: bytes | None = b""
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    tls: bool = False

    @classmethod
    def parse(cls, url: str, body: bytes | None = b"", content_type: str = "application/json") -> Target:
        """Parse `http://host:port[/path]`; the default path is `/invocations`. Raises UsageError."""
        if url.startswith("sagemaker:"):
            raise UsageError(
                "SageMaker endpoints are not supported yet, only servers with a URL.",
                remedy="Run gpuproof serve MODEL, then gpuproof bench-endpoint http://127.0.0.1:8080",
            )
        example = "Use a URL such as http://127.0.0.1:8080"
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError:
            raise UsageError(f"'{url}' is not a URL.", remedy=example) from None
        if parts.scheme not in ("http", "https"):
            raise UsageError(f"'{url}' is not the URL of an HTTP server.", remedy=example)
        if not host:
            raise UsageError(f"'{url}' has no host.", remedy=example)
        if parts.username or parts.password:
            raise UsageError("URLs with a user name or password are not supported.", remedy=example)
        path = parts.path if parts.path not in ("", "/") else DEFAULT_PATH
        tls = parts.scheme == "https"
        return cls(
            host,
            port or (443 if tls else 80),
            f"{path}?{parts.query}" if parts.query else path,
            body,
            content_type,
            tls=tls,
        )

    @property
    def url(self) -> str:
        """The URL of the server, with the path."""
        return f"{'https' if self.tls else 'http'}://{self._authority}{self.path}"

    @property
    def loopback(self) -> bool:
        """Whether the server is certainly on this machine."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def request(self) -> bytes:
        """The bytes of an HTTP/1.1 request on a persistent connection."""
        lines = [f"{'GET' if self.body is None else 'POST'} {self.path} HTTP/1.1", f"Host: {self._authority}"]
        if self.body is not None:
            lines += [f"Content-Type: {self.content_type}", f"Content-Length: {len(self.body)}"]
        lines += [f"{name}: {value}" for name, value in self.headers.items()]
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + (self.body or b"")

    @property
    def _authority(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
