"""Print a completion script for bash, zsh or fish.

Commands, options, choices, files and the ids of local runs are completed. Load it from the shell's start-up file:
  bash  eval "$(gpuproof completion bash)"
  zsh   gpuproof completion zsh > "${fpath[1]}/_gpuproof"
  fish  gpuproof completion fish > ~/.config/fish/completions/gpuproof.fish
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuproof.cli.arguments import add_command
from gpuproof.errors import ExitCode

if TYPE_CHECKING:
    from gpuproof.cli.arguments import Subparsers
    from gpuproof.cli.parser import Parser

SHELLS = ("bash", "zsh", "fish")
RUNS = "runs"
"""Prints the ids of local runs, for the scripts."""

_FILES = {"FILE", "PATH", "LOGFILE|-|RUN", "MODEL", "TARGET", "PY", "PYTHON"}
_FOLDERS = {"FOLDER"}


def add_parser(commands: Subparsers) -> None:
    """Add `gpuproof completion` to the command line."""
    parser = add_command(commands, "completion", "print a completion script for bash, zsh or fish", __doc__)
    parser.add_argument("shell", choices=[*SHELLS, RUNS], metavar="{bash,zsh,fish}", help="the shell")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Entry point of `gpuproof completion`."""
    if arguments.shell == RUNS:
        return _print_runs()
    print(script(arguments.shell))
    return ExitCode.OK


def script(shell: str) -> str:
    """The completion script of a shell."""
    import shtab  # needed by this command only

    from gpuproof.cli.main import root_parser

    parser = root_parser()
    runs = shtab.cmd(f"gpuproof completion {RUNS}")
    for action in _actions(parser):
        kind = _kind(action)
        if kind is not None:
            completers: dict[str, Any] = {"file": shtab.FILE, "folder": shtab.DIRECTORY, "run": runs}
            action.complete = completers[kind]  # pyright: ignore[reportAttributeAccessIssue]
    return shtab.complete(parser, shell)


def _actions(parser: Parser) -> Iterator[argparse.Action]:
    yield from parser.arguments
    for child in parser.subcommands.values():
        yield from _actions(child)


def _kind(action: argparse.Action) -> str | None:
    """What an argument names: a `file`, a `folder` or a `run`."""
    if action.nargs == 0 or action.choices is not None:
        return None
    name = str(action.metavar or action.dest.upper())
    if name == "RUN":
        return RUNS.removesuffix("s")
    if name in _FOLDERS:
        return "folder"
    return "file" if name in _FILES or action.type is Path else None


def _print_runs() -> int:
    from gpuproof.backends.registry import default_backend, load_backend

    for record in load_backend(default_backend()).open().runs().records():
        print(record.id)
    return ExitCode.OK
