"""Where the load goes, and the bytes of one request."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from gpuproof.errors import UsageError

DEFAULT_PATH = "/invocations"
"""What SageMaker calls on every model server: the "Use Your Own Inference Code" page of its developer guide."""


@dataclass(frozen=True)
class Target:
    """One request to one server, sent again and again.

    Args:
        host: a name or an address.
        port: 1 to 65535.
        path: with the query, if there is one.
        body: sent as it is; with a body of None the method is GET.
        content_type: of the body.
        headers: further ones.
        tls: whether the server speaks HTTPS.
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
        """Read `http://host:port[/path]`; without a path `/invocations` is meant. Raises UsageError."""
        if url.startswith("sagemaker:"):
            raise UsageError(
                "Endpoints on SageMaker cannot be measured yet, only servers that are reached by URL.",
                remedy="gpuproof serve MODEL, and then gpuproof bench-endpoint http://127.0.0.1:8080",
            )
        example = "Write, for example, http://127.0.0.1:8080"
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError:
            raise UsageError(f"'{url}' is not a URL.", remedy=example) from None
        if parts.scheme not in ("http", "https"):
            raise UsageError(f"'{url}' is not the URL of an HTTP server.", remedy=example)
        if not host:
            raise UsageError(f"'{url}' names no host.", remedy=example)
        if parts.username or parts.password:
            raise UsageError("A URL with a user or a password in it is not taken.", remedy=example)
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
        """As a person writes it."""
        return f"{'https' if self.tls else 'http'}://{self._authority}{self.path}"

    @property
    def loopback(self) -> bool:
        """Whether the server is surely on this machine."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def request(self) -> bytes:
        """The bytes of one HTTP/1.1 request on a connection that stays open."""
        lines = [f"{'GET' if self.body is None else 'POST'} {self.path} HTTP/1.1", f"Host: {self._authority}"]
        if self.body is not None:
            lines += [f"Content-Type: {self.content_type}", f"Content-Length: {len(self.body)}"]
        lines += [f"{name}: {value}" for name, value in self.headers.items()]
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + (self.body or b"")

    @property
    def _authority(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
