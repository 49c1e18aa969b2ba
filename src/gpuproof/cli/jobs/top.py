"""Show what GPUs do now, and what they wait for: those of this machine, or those of a run.

RUN is a run's id, its beginning or end, or a job's name. Without RUN, it shows this machine: its GPUs with the processes that use
them. What a GPU waits for is concluded from the last half minute, by the rules of the verdict: input, one CPU
core, all cores, the disk, copies, communication.

Keys: q quits, s stops the run after a question, r writes its report, l shows or hides its log, ? shows all keys.

Without a terminal, or with --json, it prints one snapshot. The screen requires the extra: pip install "gpuproof[top]"
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from typing import TYPE_CHECKING

from gpuproof.cli.arguments import add_backend_flags, add_command, add_format_flag, resolve_run
from gpuproof.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from gpuproof.app.live_view import MachineView, RunView, Snapshot
    from gpuproof.cli.arguments import Subparsers

_EXTRA = ("textual", "rich")


def add_parser(commands: Subparsers) -> None:
    """Add `gpuproof top` to the command line."""
    parser = add_command(commands, "top", "show what GPUs do now, and what they wait for", __doc__, run)
    parser.add_argument(
        "run_name",
        nargs="?",
        metavar="RUN",
        help="a run's id, its beginning or end, or a job's name (default: this machine)",
    )
    add_backend_flags(parser)
    add_format_flag(parser)


def run(arguments: argparse.Namespace) -> int:
    """Entry point of `gpuproof top`."""
    if arguments.run_name is None and (arguments.on or arguments.region):
        flag = "--on" if arguments.on else "--region"
        raise UsageError(f"{flag} requires a run.", remedy=f"gpuproof top RUN {flag} ...")
    is_screen = arguments.format == "text" and _is_terminal()
    if is_screen:
        _require_extra()
    from gpuproof.app.live_view import MachineView, RunView
    from gpuproof.cli.console import takes_unicode

    if arguments.run_name is None:
        view: MachineView | RunView = MachineView()
    else:
        view = RunView(resolve_run(arguments, arguments.run_name))
    if not is_screen:
        _print(view.first(), as_json=arguments.format == "json")
        return ExitCode.OK
    from gpuproof.cli.top.screen import show  # imports the extra

    found = view.run if isinstance(view, RunView) else None
    return show(view.snapshots(), found, unicode=takes_unicode(sys.stdout))


def _print(snapshot: Snapshot, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(snapshot.to_json(history=False), indent=2))
        return
    from gpuproof.cli.console import takes_unicode
    from gpuproof.cli.top.lines import snapshot_text

    width = shutil.get_terminal_size((100, 0)).columns
    print(snapshot_text(snapshot, width, unicode=takes_unicode(sys.stdout)))


def _is_terminal() -> bool:
    from gpuproof.settings import interactive

    # Textual reads the first, and draws on the last.
    return interactive(sys.stdout) and all(os.isatty(number) for number in (0, 2))


def _require_extra() -> None:
    """Raise an error if the extra is not installed, before anything is looked up."""
    from importlib.util import find_spec

    if any(find_spec(name) is None for name in _EXTRA):
        raise UsageError(
            "The screen of `gpuproof top` requires the package textual, which is not installed.",
            remedy='pip install "gpuproof[top]"; without it, `gpuproof top --json` prints one snapshot.',
        )
