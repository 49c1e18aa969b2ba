"""Writes `docs/gpuproof.1`, the man page: every command and option, from the parsers themselves.

python tools/build_man_page.py          # write it
python tools/build_man_page.py --check  # exit 1 if it is not current

Shell completion (`gpuproof completion`) comes from the same parsers.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from build_cli_docs import metavar, write_or_check

PAGE = Path(__file__).resolve().parent.parent / "docs" / "gpuproof.1"


def main() -> int:
    """Write, or with --check compare."""
    return write_or_check(PAGE, page(), __doc__)


def page() -> str:
    """The whole page, the same on every version of Python."""
    from gpuproof.cli.main import COMMANDS, root_parser

    root = root_parser()
    lines = [
        '.\\" Written by tools/build_man_page.py.',
        '.TH GPUPROOF 1 "" "GPUproof" "User Commands"',
        ".SH NAME",
        "gpuproof \\- run scripts on AWS GPUs and prove that the GPU did the work",
        ".SH SYNOPSIS",
        ".B gpuproof",
        ".I COMMAND",
        "[\\fIOPTION\\fR ...]",
        ".SH DESCRIPTION",
        *paragraphs(root.description or ""),
        ".SH COMMANDS",
    ]
    for name, parser in root.subcommands.items():
        lines += command(f"gpuproof {name}", parser)
    assert list(root.subcommands) == list(COMMANDS)
    lines += [".SH EXIT STATUS", *exit_codes(root.epilog or ""), ".SH ENVIRONMENT", *variables()]
    return "\n".join(lines) + "\n"


def command(name: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    """A command's heading, description and arguments, and those of its own commands."""
    yield f".SS {escaped(name)}"
    yield from paragraphs(parser.description or "")
    for action in parser.arguments:  # type: ignore[attr-defined]
        if action.help == argparse.SUPPRESS or action.dest in ("help", argparse.SUPPRESS):
            continue
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
            continue
        yield ".TP"
        value = metavar(action)
        takes_value = action.nargs != 0
        names = [f"\\fB{escaped(string)}\\fR" for string in action.option_strings]
        written = ", ".join(names) + (f" \\fI{escaped(value)}\\fR" if takes_value and names else "")
        yield written or f"\\fI{escaped(value)}\\fR"
        yield escaped(action.help or "")
    for child, child_parser in parser.subcommands.items():  # type: ignore[attr-defined]
        yield from command(f"{name} {child}", child_parser)


def exit_codes(epilog: str) -> Iterator[str]:
    """The exit codes that `gpuproof --help` names."""
    for code, meaning in re.findall(r"(\d+) ([^,.]+)", epilog.partition("Exit codes:")[2]):
        yield from (".TP", f"\\fB{code}\\fR", escaped(meaning.strip()))


def variables() -> Iterator[str]:
    """The environment variables that `gpuproof.settings` describes."""
    from gpuproof import settings

    for row in re.findall(r"^\| (`.*) \| (.*) \|$", settings.__doc__ or "", re.MULTILINE):
        names, meaning = (cell.replace("`", "") for cell in row)
        yield from (".TP", f"\\fB{escaped(names)}\\fR", escaped(meaning))


def paragraphs(text: str) -> Iterator[str]:
    """Paragraphs; indented lines stay as they are."""
    for paragraph in text.strip().split("\n\n"):
        yield ".PP"
        for line in paragraph.splitlines():
            yield from ((".br", escaped(line.strip())) if line.startswith("  ") else (escaped(line),))


def escaped(text: str) -> str:
    """Text for roff: no line is taken for a request, and dashes stay dashes."""
    text = " ".join(text.split()).replace("\\", "\\e").replace("-", "\\-").replace("…", "...")
    return f"\\&{text}" if text.startswith((".", "'")) else text


if __name__ == "__main__":
    sys.exit(main())
