"""Admits requests to the dashboard: by the token in its address, then by a cookie; only for loopback hosts."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gpuproof.cli.dashboard.documents import refused_document

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data: blob:; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_QUERY = "token"


@dataclass(frozen=True)
class Keys:
    """What a browser has to know.

    Args:
        token: in the address that is printed.
        port: of the server. Cookies do not depend on the port: each dashboard has a name of its own for its cookie.
    """

    token: str
    port: int

    @property
    def cookie_name(self) -> str:
        """The name of the cookie."""
        return f"gpuproof-dashboard-{self.port}"

    @property
    def cookie(self) -> str:
        """The value of the cookie, which is sent to every port of this host, and therefore is not the token."""
        return self._derived("cookie")

    @property
    def form(self) -> str:
        """What a page sends with a request that changes something."""
        return self._derived("form")

    def _derived(self, purpose: str) -> str:
        return hmac.new(self.token.encode(), purpose.encode(), hashlib.sha256).hexdigest()


def is_same(given: str, known: str) -> bool:
    """Whether two secrets are equal, in a time that does not depend on where they differ."""
    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), known.encode())


def is_loopback(host: str) -> bool:
    """Whether a name or an address, such as `localhost` or `127.0.0.1`, is of this machine alone."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_own_origin(headers: Headers) -> bool:
    """Whether a request comes from a page of this server, by its header Origin."""
    return headers.getlist("origin") == [f"http://{headers.get('host', '')}"]


class Access:
    """ASGI middleware that refuses all requests without the token or the cookie, and to other hosts.

    The header Host is checked, so that another site's name, resolved to 127.0.0.1, does not get to the dashboard.
    """

    def __init__(self, app: ASGIApp, keys: Keys) -> None:
        self._app = app
        self._keys = keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        if scope["type"] != "http":
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        response = self._refusal_or_login(Request(scope))
        await (response or self._app)(scope, receive, send_with_headers)

    def _refusal_or_login(self, request: Request) -> Response | None:
        if not _is_for_this_host(request.headers):
            return PlainTextResponse(
                "Refused: the header Host names no loopback address.\n"
                "Open the dashboard as http://127.0.0.1:PORT or http://localhost:PORT.\n",
                421,
            )
        query = parse_qsl(request.url.query, keep_blank_values=True)
        tokens = [value for name, value in query if name == _QUERY]
        if tokens:
            if request.method != "GET" or len(tokens) != 1 or not is_same(tokens[0], self._keys.token):
                return _forbidden("The token in this address is not the one of the running dashboard.")
            return self._logged_in(request, [(name, value) for name, value in query if name != _QUERY])
        if is_same(request.cookies.get(self._keys.cookie_name, ""), self._keys.cookie):
            return None
        return _forbidden("This browser has not opened the address with the token yet.")

    def _logged_in(self, request: Request, query: list[tuple[str, str]]) -> Response:
        """A redirect to the same address without the token, which would stay in the history and in bookmarks."""
        path = "/" + request.url.path.lstrip("/")  # `//name` would be another host
        response = RedirectResponse(path + (f"?{urlencode(query)}" if query else ""), 303)
        response.set_cookie(
            self._keys.cookie_name, self._keys.cookie, path="/", httponly=True, samesite="strict"
        )
        return response


def _forbidden(reason: str) -> Response:
    return Response(refused_document(reason), 403, media_type="text/html")


def _is_for_this_host(headers: Headers) -> bool:
    given = headers.getlist("host")
    if len(given) != 1:
        return False
    name, _, port = given[0].rpartition(":") if not given[0].endswith("]") else (given[0], "", "")
    if not name:
        name, port = port, ""
    if port and not (port.isascii() and port.isdigit()):
        return False
    return is_loopback(name[1:-1] if name.startswith("[") and name.endswith("]") else name)
