"""Open a notebook instance in the browser, and print what the GPU check at its start found.

The address contains a token: whoever has it uses the notebook instance, with the rights of its role. It is valid for five
minutes. It is printed only with --no-browser.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import TYPE_CHECKING

from gpuproof.cli.arguments import add_command, add_format_flag
from gpuproof.cli.notebooks.common import Session, add_name, add_timeout
from gpuproof.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from gpuproof.cli.arguments import Subparsers


def add_parser(actions: Subparsers) -> None:
    """Add `gpuproof notebook open` to the command line."""
    parser = add_command(actions, "open", "open a notebook instance in the browser", __doc__)
    add_name(parser)
    parser.add_argument(
        "--no-browser", action="store_true", help="print the address instead; keep it as secret as a password"
    )
    add_timeout(parser)
    add_format_flag(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Entry point of `gpuproof notebook open`."""
    if not arguments.no_browser and not _has_display():
        raise UsageError(
            "There is no display to open a browser on.",
            remedy=f"gpuproof notebook open --no-browser {arguments.name} prints the address, which is a secret.",
        )
    session = Session(arguments)
    notebook = session.notebook(arguments.name)
    with session.interruptible(arguments.name, "gpuproof notebook stop"):
        url = notebook.open()
    check = notebook.gpu_check()
    if check is not None:
        session.console.label("gpu", check)
    if arguments.no_browser:
        document = {"version": 1, "notebook": arguments.name, "url": url, "gpu_check": check}
        print(json.dumps(document, indent=2) if arguments.format == "json" else url)
        return ExitCode.OK
    _open_browser(url, arguments.name)
    if arguments.format == "json":
        print(json.dumps({"version": 1, "notebook": arguments.name, "gpu_check": check}, indent=2))
    return ExitCode.OK


def _has_display() -> bool:
    return sys.platform == "darwin" or any(
        os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    )


def _open_browser(url: str, name: str) -> None:
    import webbrowser  # only here

    if not webbrowser.open(url):
        raise UsageError(
            "No browser could be started.",
            remedy=f"gpuproof notebook open --no-browser {name} prints the address, which is a secret.",
        )
