"""Posts a message as JSON to a webhook. Its address is a secret: no message contains it."""

from __future__ import annotations

import http.client
import json
import ssl
from urllib.parse import urlsplit

from gpuproof.agent.notify.events import Message, NotSent

_TIMEOUT_S = 10.0


def post(url: str | None, variable: str, message: Message) -> None:
    """Post a message; redirects are not followed, because they would tell the message to another server.

    Args:
        url: of the webhook; `None` if the variable is not set.
        variable: named in errors.

    Raises:
        NotSent: it was not accepted.
    """
    if not url:
        raise NotSent(f"the variable {variable} is not set on the host")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not host:
        raise NotSent(f"the variable {variable} does not contain an http or https address")
    connection = (
        http.client.HTTPSConnection(host, port, timeout=_TIMEOUT_S, context=ssl.create_default_context())
        if parts.scheme == "https"
        else http.client.HTTPConnection(host, port, timeout=_TIMEOUT_S)
    )
    path = f"{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}"
    try:
        connection.request(
            "POST", path, json.dumps(message.document).encode(), {"Content-Type": "application/json"}
        )
        status = connection.getresponse().status
    except TimeoutError as error:
        raise NotSent(f"the server did not respond within {_TIMEOUT_S:g} s") from error
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise NotSent(f"the server could not be reached: {reason}") from error
    finally:
        connection.close()
    if not 200 <= status < 300:
        raise NotSent(f"the server responded with status {status}")
