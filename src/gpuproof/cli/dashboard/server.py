"""Serves the dashboard until it is interrupted."""

from __future__ import annotations

import secrets
import socket

import uvicorn

from gpuproof.cli.dashboard.access import Keys
from gpuproof.cli.dashboard.routes import Dashboard, guarded
from gpuproof.errors import UsageError

_TOKEN_BYTES = 32
_END_S = 3


def serve(host: str, port: int, *, allow_stop: bool, on: str | None, region: str | None) -> None:
    """Serve until SIGINT; prints the address with the token.

    Args:
        host: a loopback address.
        port: 0 chooses a free one.
        allow_stop: whether runs can be stopped.
        on: only runs of this backend.
        region: of AWS; the user's default if None.

    Raises:
        UsageError: the port is in use, or may not be used.
    """
    listener = _listen(host, port)
    port = listener.getsockname()[1]
    keys = Keys(secrets.token_urlsafe(_TOKEN_BYTES), port)
    dashboard = Dashboard(keys, allow_stop, on, region)
    config = uvicorn.Config(
        guarded(dashboard),
        loop="asyncio",
        http="h11",
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="critical",  # errors are shown by the routes; the access log has the token
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=_END_S,
    )
    server = uvicorn.Server(config)
    dashboard.is_ending = lambda: server.should_exit
    shown = f"[{host}]" if ":" in host else host
    print(f"gpuproof dashboard: http://{shown}:{port}/?token={keys.token}", flush=True)
    print(
        "Runs can be stopped. Ctrl-C ends it." if allow_stop else "It is read-only. Ctrl-C ends it.",
        flush=True,
    )
    try:
        server.run(sockets=[listener])
    except KeyboardInterrupt:
        return  # uvicorn has ended all connections, and repeats the signal


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen()  # before the address is printed: connections wait until they are served
    except OSError as error:
        listener.close()
        raise UsageError(
            f"Port {port} of {host} cannot be used: {(error.strerror or str(error)).lower()}.",
            remedy="--port 0 chooses a free port.",
        ) from error
    return listener
