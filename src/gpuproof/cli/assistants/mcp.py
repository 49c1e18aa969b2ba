"""Serve GPUproof's commands as tools of the Model Context Protocol (MCP), on standard input and output.

A client starts it; its configuration names the command `gpuproof` with the argument `mcp`. The tools check, rule, plan, gpus, explain,
doctor, ps, verdict, audit and cleanup read only: they cost nothing and change nothing. With --allow-spend there are also run, deploy, stop
and delete: each run and each endpoint counts with its highest possible cost, and one that exceeds what is left is not started.
With --allow-spend 0, runs on this machine are possible.

It requires the extra: pip install "gpuproof[mcp]"
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from gpuproof.cli.arguments import add_command, usd
from gpuproof.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from gpuproof.cli.arguments import Subparsers


def add_parser(commands: Subparsers) -> None:
    """Add `gpuproof mcp` to the command line."""
    summary = "serve the commands as tools for coding assistants (Model Context Protocol)"
    parser = add_command(commands, "mcp", summary, __doc__, run)
    parser.add_argument(
        "--allow-spend",
        type=usd,
        metavar="USD",
        help="add the tools that may cost money, and limit what they may cost together (default: read-only tools)",
    )
    parser.add_argument(
        "--directory",
        type=Path,
        default=Path(),
        metavar="FOLDER",
        help="folder to which paths are relative (default: the working directory)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Entry point of `gpuproof mcp`."""
    if not arguments.directory.is_dir():
        raise UsageError(f"There is no folder {arguments.directory}.")
    try:
        from gpuproof.cli.assistants.server import serve  # imports the extra
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("mcp", "mcp_types"):
            raise
        raise UsageError(
            "`gpuproof mcp` requires the package mcp, which is not installed.",
            remedy='pip install "gpuproof[mcp]"',
        ) from None
    serve(arguments.directory, arguments.allow_spend)
    return ExitCode.OK
