"""The option --html of commands that write their result as a page, too."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from gpuproof.errors import GPUproofError, UsageError

if TYPE_CHECKING:
    from gpuproof.report import Page

STANDARD_OUTPUT = "-"


def add_html_flag(parser: argparse.ArgumentParser, what: str) -> None:
    """Add --html.

    Args:
        what: the page shows.
    """
    parser.add_argument(
        "--html",
        metavar="FILE",
        help=f"also write {what} as one HTML file that opens without a network (- for standard output, in place of the text)",
    )


def check_html_flag(arguments: argparse.Namespace) -> None:
    """Check that the page can be written, before anything that takes long.

    Raises:
        UsageError: there is no such folder, it is a folder, or two outputs would be mixed.
    """
    file = arguments.html
    if file is None:
        return
    if file == STANDARD_OUTPUT:
        if arguments.format != "text":
            raise UsageError(
                f"--html - and --format {arguments.format} would both be written to standard output.",
                remedy="--html FILE",
            )
        return
    path = Path(file)
    if path.is_dir():
        raise UsageError(f"--html: {file} is a folder.", remedy=f"--html {path / 'page.html'}")
    if not path.parent.is_dir():
        raise UsageError(f"--html: there is no folder {path.parent}.", remedy=f"mkdir -p {path.parent}")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise UsageError(f"--html: {file} cannot be written: permission denied.", remedy="--html FILE")


def is_text_replaced(arguments: argparse.Namespace) -> bool:
    """Whether standard output has the page, and no text."""
    return arguments.html == STANDARD_OUTPUT


def page_footer() -> str:
    """What wrote the page, and when."""
    from gpuproof.version import __version__

    return f"Written by GPUproof {__version__}, {time.strftime('%Y-%m-%d %H:%M', time.gmtime())} UTC"


def write_page(arguments: argparse.Namespace, page: Page) -> None:
    """Write the page to where --html says.

    Raises:
        GPUproofError: the file cannot be written.
    """
    from gpuproof.report import render
    from gpuproof.util.atomic import write_bytes

    text = render(page)
    if arguments.html == STANDARD_OUTPUT:
        sys.stdout.write(text)
        return
    path = Path(arguments.html)
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(text.encode())  # a pipe or a device is not replaced
        else:
            write_bytes(path, text.encode())
    except OSError as error:
        raise GPUproofError(
            f"--html: {path} cannot be written: {(error.strerror or str(error)).lower()}.",
            remedy="--html FILE",
        ) from error
    print(f"gpuproof: page written to {path}", file=sys.stderr)
