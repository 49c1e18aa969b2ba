"""Rejects requests of web pages: a page in the user's browser must not reach the emulator.

A page on another port of this machine is as foreign as any other. SDKs send no `Origin`; a page whose own host name resolves
to loopback (DNS rebinding) is recognized by its `Host`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from gpuproof_emulator.protocol import AwsResponse

_CORS_PREFIX = "access-control-"
_FOREIGN_SITES = ("cross-site", "same-site")


def is_from_web_page(environ: Mapping[str, Any]) -> bool:
    """Whether a browser sent the request for a page that is not the emulator's own."""
    host = environ.get("HTTP_HOST", "")
    if not _is_local(host):
        return True
    if environ.get("HTTP_SEC_FETCH_SITE") in _FOREIGN_SITES:
        return True
    origin = environ.get("HTTP_ORIGIN")
    return origin is not None and origin != f"http://{host}"


def without_cors(response: AwsResponse) -> AwsResponse:
    """The response without moto's headers that let every page read it."""
    headers = tuple(
        (name, value) for name, value in response.headers if not name.lower().startswith(_CORS_PREFIX)
    )
    return AwsResponse(response.status, headers, response.body)


def _is_local(host: str) -> bool:
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    return name in ("127.0.0.1", "::1", "localhost") or name.endswith(".localhost")
