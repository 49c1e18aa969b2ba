"""Asks a Jupyter server on this machine what its kernels and terminals do, over its REST API.

Sources: https://jupyter-server.readthedocs.io/en/latest/developers/rest-api.html (`GET /api/kernels`, `GET /api/terminals`,
`GET /api/sessions`, `GET /api/status`); the classic notebook server has the same.

`last_activity` of `/api/status` is not used: an open browser tab asks for lists all the time, which counts there.
"""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from gpuproof.agent.idle.decision import JupyterActivity

_TIMEOUT_S = 10.0
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_IDLE_STATES = ("idle", "dead", "unknown")
_NOT_COUNTED = "?no_track_activity=1"
"""Keeps this request out of the server's own `last_activity`."""


@dataclass(frozen=True)
class JupyterServer:
    """A Jupyter server.

    Args:
        url: such as `http://127.0.0.1:8888/`; certificates of a server on this machine are not checked.
        token: sent with each request; empty for none.
        timeout_s: for each request.
    """

    url: str
    token: str = ""
    timeout_s: float = _TIMEOUT_S

    def answers(self) -> bool:
        """Whether it is ready and accepts the token."""
        return isinstance(self._get("api/status"), dict)

    def activity(self) -> JupyterActivity | None:
        """What its kernels and terminals do; `None` if it does not answer."""
        kernels = self._get("api/kernels")
        if not isinstance(kernels, list):
            return None
        terminals = self._get("api/terminals")
        # A server without terminals answers 404.
        return read_activity(kernels, terminals if isinstance(terminals, list) else [])

    def sessions(self) -> list[Any]:
        """The answer of `GET /api/sessions`: each notebook and console with its kernel; empty if it does not answer."""
        found = self._get("api/sessions")
        return found if isinstance(found, list) else []

    def _get(self, path: str) -> Any:
        """The JSON at a path; `None` if there is none."""
        request = urllib.request.Request(  # noqa: S310 - the address is http or https: see `server_at`
            f"{self.url.rstrip('/')}/{path}{_NOT_COUNTED}",
            headers={"Authorization": f"token {self.token}"} if self.token else {},
        )
        # Not through a proxy of the environment.
        handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
        if urlsplit(self.url).hostname in _LOOPBACK:
            handlers.append(urllib.request.HTTPSHandler(context=_without_certificates()))
        try:
            with urllib.request.build_opener(*handlers).open(request, timeout=self.timeout_s) as answer:
                return json.loads(answer.read())
        except (OSError, ValueError, urllib.error.HTTPError):
            return None


def _without_certificates() -> ssl.SSLContext:
    """TLS for a server on this machine: that of a notebook instance has a certificate of its own."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def server_at(url: str, token: str = "") -> JupyterServer:
    """The server at an address.

    Raises:
        ValueError: the address is not `http://` or `https://`.
    """
    if urlsplit(url).scheme not in ("http", "https"):
        raise ValueError(f"{url} is no address of a Jupyter server: write http://127.0.0.1:8888")
    return JupyterServer(url, token)


def read_activity(kernels: list[Any], terminals: list[Any]) -> JupyterActivity:
    """The activity in the answers of `GET /api/kernels` and `GET /api/terminals`."""
    running = [kernel for kernel in kernels if isinstance(kernel, dict)]
    marks = [(f"kernel {kernel.get('id')}", str(kernel.get("last_activity"))) for kernel in running]
    marks += [
        (f"terminal {terminal.get('name')}", str(terminal.get("last_activity")))
        for terminal in terminals
        if isinstance(terminal, dict)
    ]
    busy = sum(kernel.get("execution_state") not in _IDLE_STATES for kernel in running)
    return JupyterActivity(busy, frozenset(marks))
