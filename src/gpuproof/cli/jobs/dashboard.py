"""Serve a dashboard for a browser on this machine: runs with live plots and logs, reports, comparisons, costs, plans.

It prints an address with a token, without which a browser sees nothing. It listens on loopback addresses only, and is read-only unless
started with --allow-stop, which adds a button that stops a run. From another machine, use a tunnel:

    ssh -L 8765:127.0.0.1:8765 HOST    with: gpuproof dashboard --port 8765

It requires the extra: pip install "gpuproof[dashboard]"
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from gpuproof.cli.arguments import add_backend_flags, add_command
from gpuproof.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from gpuproof.cli.arguments import Subparsers

_EXTRA = ("starlette", "uvicorn")


def add_parser(commands: Subparsers) -> None:
    """Add `gpuproof dashboard` to the command line."""
    parser = add_command(
        commands, "dashboard", "show runs, plots, costs and plans in a browser", __doc__, run
    )
    parser.add_argument(
        "--host", default="127.0.0.1", help="loopback address to listen on (default: 127.0.0.1)"
    )
    parser.add_argument("--port", type=_port, default=0, help="port to listen on (default: 0, a free one)")
    parser.add_argument(
        "--allow-stop", action="store_true", help="let the browser stop runs (default: read-only)"
    )
    add_backend_flags(parser)


def run(arguments: argparse.Namespace) -> int:
    """Entry point of `gpuproof dashboard`."""
    from importlib.util import find_spec

    if any(find_spec(name) is None for name in _EXTRA):
        raise UsageError(
            "`gpuproof dashboard` requires the packages starlette and uvicorn, which are not installed.",
            remedy='pip install "gpuproof[dashboard]"',
        )
    from gpuproof.cli.dashboard.access import is_loopback  # imports the extra
    from gpuproof.cli.dashboard.server import serve

    host = "127.0.0.1" if arguments.host.lower() == "localhost" else arguments.host.strip("[]")
    if not is_loopback(host):
        port = arguments.port or 8765
        raise UsageError(
            f"--host {arguments.host} is no loopback address. The dashboard shows logs and costs and has neither TLS nor users, so "
            "that it listens on this machine only.",
            remedy=f"From another machine: ssh -L {port}:127.0.0.1:{port} HOST, with: gpuproof dashboard --port {port}",
        )
    serve(
        host,
        arguments.port,
        allow_stop=arguments.allow_stop,
        on=arguments.on,
        region=arguments.region,
    )
    return ExitCode.OK


def _port(text: str) -> int:
    port = int(text)
    if not 0 <= port <= 65535:
        raise ValueError
    return port
