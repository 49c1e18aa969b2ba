"""`gpuproof watch` without a command: `--pid` and `--for`."""

from __future__ import annotations

import argparse
import sys
from typing import Callable

from gpuproof.watch.report import WatchReport, exit_code
from gpuproof.watch.settings import WatchSettings

_OF_COMMANDS = ("group", "hosts", "to", "stall_timeout", "if_unused")
"""Options that change how a command is started or ended."""


def run_without_command(
    arguments: argparse.Namespace, settings: WatchSettings, show: Callable[[WatchReport], None]
) -> int:
    """Watch what runs already; returns the exit code.

    Args:
        show: prints a report.
    """
    option = "--pid" if arguments.pid else "--for"
    if arguments.script_arguments:
        return _refuse(f"{option} watches what runs already: leave out the command.")
    for name in _OF_COMMANDS:
        if getattr(arguments, name, None) is not None:
            flag = "--" + name.replace("_", "-")
            return _refuse(
                f"{flag} works for a command that gpuproof starts, not with {option}: leave it out."
            )
    from gpuproof.watch.attach import NotAttached, watch_processes

    reports: list[WatchReport] = []
    try:
        watch_processes(arguments.pid, settings, reports.append, arguments.seconds)
    except NotAttached as error:
        print(f"gpuproof: {error}", file=sys.stderr)
        return error.code
    show(reports[0])
    return exit_code(0, reports[0])


def _refuse(message: str) -> int:
    print(f"gpuproof: {message}", file=sys.stderr)
    return 2
