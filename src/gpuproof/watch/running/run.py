"""`gpuproof watch` without a command: `--pid` and `--for`."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Callable

from gpuproof.util.humanize import format_duration, join_words
from gpuproof.watch.report import WatchReport, exit_code
from gpuproof.watch.settings import WatchSettings

UNDECIDED = 3
"""Exit code if the GPUs cannot be read."""
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
    if not sys.platform.startswith("linux"):
        return _refuse(f"{option} reads /proc, which only Linux has.")
    if arguments.script_arguments:
        return _refuse(f"{option} watches what runs already: leave out the command.")
    if arguments.seconds == 0:
        return _refuse("--for needs a time, as in: gpuproof watch --for 60s")
    for name in _OF_COMMANDS:
        if getattr(arguments, name, None) is not None:
            flag = "--" + name.replace("_", "-")
            return _refuse(
                f"{flag} works for a command that gpuproof starts, not with {option}: leave it out."
            )
    if not arguments.pid:
        return _watch_machine(arguments)
    from gpuproof.watch.running.attach import NotAttached, watch_processes  # each of the two is used alone

    reports: list[WatchReport] = []
    try:
        watch_processes(
            arguments.pid,
            settings,
            reports.append,
            arguments.seconds,
            lambda: _announce(arguments, f"watching {_processes(arguments.pid)} until the end"),
        )
    except NotAttached as error:
        print(f"gpuproof: {error}", file=sys.stderr)
        return error.code
    show(reports[0])
    return exit_code(0, reports[0])


def _watch_machine(arguments: argparse.Namespace) -> int:
    from gpuproof.gpu.nvml import NvmlUnavailable
    from gpuproof.watch.running.machine import watch_machine
    from gpuproof.watch.running.machine_report import MachineReport, machine_text

    if arguments.gpus is not None or arguments.termination_message is not None:
        return _refuse("--gpus and --termination-message need a command or --pid.")
    try:
        report = watch_machine(
            arguments.seconds, lambda: _announce(arguments, "watching the GPUs of this machine")
        )
    except NvmlUnavailable as error:
        report = MachineReport(socket.gethostname(), time.time(), problem=error.reason)
    if report.problem is None and not report.gpus:
        report = replace(report, problem="the NVIDIA driver is installed and finds no GPU")
    document = json.dumps(report.to_json(), indent=2)
    if arguments.report is not None:
        arguments.report.write_text(document + "\n")
    if arguments.format == "json":
        print(document)
    if report.problem is not None:
        print(f"gpuproof: No GPU of this machine could be watched: {report.problem}.", file=sys.stderr)
        return UNDECIDED
    if arguments.format == "text":
        has_colour = "NO_COLOR" not in os.environ and sys.stdout.isatty()
        print(machine_text(report, shutil.get_terminal_size((0, 0)).columns, has_colour))
    return 0


def _announce(arguments: argparse.Namespace, what: str) -> None:
    """Say on a terminal why nothing is printed for so long."""
    if sys.stderr.isatty():
        time_limit = (
            "" if arguments.seconds is None else f", for {format_duration(arguments.seconds)} at most"
        )
        print(f"gpuproof: {what}{time_limit}. Ctrl-C prints what is known so far.", file=sys.stderr)


def _processes(pids: Sequence[int]) -> str:
    return f"process {pids[0]}" if len(pids) == 1 else f"processes {join_words([str(pid) for pid in pids])}"


def _refuse(message: str) -> int:
    print(f"gpuproof: {message}", file=sys.stderr)
    return 2
