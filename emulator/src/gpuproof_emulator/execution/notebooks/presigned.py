"""Presigned addresses of notebook instances, and what a browser finds there."""

from __future__ import annotations

import hashlib
import hmac
import html
import time
from urllib.parse import parse_qs, quote, urlencode

from gpuproof_emulator.context import Context
from gpuproof_emulator.protocol import AwsRequest, AwsResponse
from gpuproof_emulator.store import NOTEBOOK, Resource

PREFIX = "/_notebooks/"
"""Path of presigned addresses, which need no signature: they contain a token."""

VALID_S = 300.0
"""Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreatePresignedNotebookInstanceUrl.html"""

_PAGE = """<!doctype html>
<title>{name}</title>
<h1>{name}</h1>
<p>{text}</p>
"""


def new_url(context: Context, notebook: Resource) -> str:
    """An address that leads to a notebook instance for five minutes."""
    until = str(int(time.time() + VALID_S))
    query = urlencode({"until": until, "authToken": _token(context, notebook, until)})
    path = f"{PREFIX}{quote(notebook.region)}/{quote(notebook.name)}"
    return f"{context.clients.url}{path}?{query}"


def respond(context: Context, request: AwsRequest, jupyter_url: str | None) -> AwsResponse:
    """Lead a browser to the Jupyter of a notebook instance.

    Args:
        jupyter_url: where its Jupyter answers; None if it has none.
    """
    notebook = find_notebook(context, request)
    query = parse_qs(request.query)
    until, given = (query.get(name, [""])[0] for name in ("until", "authToken"))
    if notebook is None or not hmac.compare_digest(given, _token(context, notebook, until)):
        return _page(403, "Forbidden", "This address is not valid.")
    if time.time() > float(until):
        return _page(403, notebook.name, "This address has expired: it is valid for five minutes.")
    status = notebook.document["NotebookInstanceStatus"]
    if status != "InService":
        return _page(409, notebook.name, f"The notebook instance is {status}.")
    if jupyter_url is None:
        return _page(
            200,
            notebook.name,
            "The notebook instance is InService, and its lifecycle scripts have run. It has no Jupyter server: either Jupyter "
            "is not installed (pip install jupyterlab, for the interpreter of the emulator's option --python), or this "
            "machine allows no network namespaces.",
        )
    headers = (("Location", jupyter_url), ("Content-Length", "0"), ("Referrer-Policy", "no-referrer"))
    return AwsResponse(302, headers, [b""])


def find_notebook(context: Context, request: AwsRequest) -> Resource | None:
    """The notebook instance that a request's path names."""
    region, _, name = request.path.removeprefix(PREFIX).partition("/")
    return context.store.get(NOTEBOOK, region, name)


def _token(context: Context, notebook: Resource, until: str) -> str:
    text = f"notebook\n{notebook.region}\n{notebook.name}\n{notebook.document['CreationTime']}\n{until}"
    return hmac.new(context.clients.token.encode(), text.encode(), hashlib.sha256).hexdigest()


def _page(status: int, name: str, text: str) -> AwsResponse:
    body = _PAGE.format(name=html.escape(name), text=html.escape(text)).encode()
    headers = (("Content-Type", "text/html; charset=utf-8"), ("Content-Length", str(len(body))))
    return AwsResponse(status, headers, [body])
