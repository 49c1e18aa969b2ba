"""Print the output of a run's script; with -f, until the run has ended.

With several hosts, each line starts with its host's name; --host prints one of them as it is.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import TYPE_CHECKING, cast

from gpuproof.cli.arguments import add_command, add_format_flag, add_run_argument, resolve_run
from gpuproof.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from typing import BinaryIO

    from gpuproof.backends.base import Run
    from gpuproof.cli.arguments import Subparsers


def add_parser(commands: Subparsers) -> None:
    """Add `gpuproof logs` to the command line."""
    parser = add_command(commands, "logs", "print the output of a run's script", __doc__)
    add_run_argument(parser)
    parser.add_argument(
        "-f", "--follow", action="store_true", help="follow until the run has ended, then print its verdict"
    )
    parser.add_argument("-n", "--tail", metavar="LINES", type=int, help="print only the last lines")
    parser.add_argument(
        "--since",
        metavar="TIME",
        help="print only what was printed since then: 10m, 2h, or a time such as 2026-11-22T10:30",
    )
    parser.add_argument("--host", metavar="HOST", help="print only this host's output, such as algo-2")
    add_format_flag(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Entry point of `gpuproof logs`."""
    if arguments.tail is not None and arguments.tail < 0:
        raise UsageError(f"--tail {arguments.tail} is negative.", remedy="--tail 100")
    since = parse_since(arguments.since, time.time()) if arguments.since else None
    found = resolve_run(arguments, arguments.run_name)
    if arguments.format == "json":
        return _print_json(arguments, found, since)
    if arguments.follow:
        return _follow(arguments, found, since)
    length = _write(found, sys.stdout.buffer, arguments, since)
    if length == 0 and (record := found.record).has_ended:
        print(f"gpuproof: {record.id} has no output: {record.reason or record.status}", file=sys.stderr)
    return ExitCode.OK


def parse_since(text: str, now: float) -> float:
    """Seconds since the epoch for `10m`, which is before now, or for a date and time.

    Raises:
        UsageError: it is neither.
    """
    from datetime import datetime

    from gpuproof.units import Duration, UnitError

    try:
        return now - Duration.parse(text).seconds
    except UnitError:
        pass
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        raise UsageError(
            f"--since {text} is neither a duration nor a time.",
            remedy="Write, for example, --since 10m or --since 2026-11-22T10:30.",
        ) from None


class LastLines:
    """A sink that keeps the last lines."""

    def __init__(self, count: int) -> None:
        from collections import deque

        self._lines: deque[bytes] = deque(maxlen=count + 1)  # and the beginning of another one
        self._count = count
        self._lines.append(b"")

    def write(self, content: bytes) -> int:
        """Take output."""
        first, *others = content.split(b"\n")
        self._lines[-1] += first
        self._lines.extend(others)
        return len(content)

    def content(self) -> bytes:
        """The last lines."""
        lines = list(self._lines)
        ends = lines[-1] == b""
        kept = lines[:-1] if ends else lines
        kept = kept[-self._count :] if self._count else []
        return b"\n".join(kept) + (b"\n" if kept and ends else b"")


def _write(found: Run, sink: BinaryIO, arguments: argparse.Namespace, since: float | None) -> int:
    """Write the output that the flags select, and return the length of all output."""
    if arguments.tail is None:
        return found.write_log(sink, since=since, host=arguments.host)
    last = LastLines(arguments.tail)
    length = found.write_log(cast("BinaryIO", last), since=since, host=arguments.host)
    sink.write(last.content())
    return length


def _follow(arguments: argparse.Namespace, found: Run, since: float | None) -> int:
    from gpuproof.cli.console import Console
    from gpuproof.cli.follow import follow_run

    offset = 0
    if arguments.tail is not None or since is not None:
        offset = _write(found, sys.stdout.buffer, arguments, since)
        sys.stdout.buffer.flush()
    return follow_run(found, Console(), offset=offset, stop_on_interrupt=False, host=arguments.host)


def _print_json(arguments: argparse.Namespace, found: Run, since: float | None) -> int:
    from io import BytesIO

    if arguments.follow:
        raise UsageError(
            "--follow prints the output as it comes, and has no JSON.", remedy="Remove --follow or --json."
        )
    output = BytesIO()
    _write(found, output, arguments, since)
    lines = output.getvalue().decode("utf-8", "replace").splitlines()
    print(json.dumps({"version": 1, "id": found.id, "lines": lines}, indent=2))
    return ExitCode.OK
