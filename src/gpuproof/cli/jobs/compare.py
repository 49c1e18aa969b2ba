"""Compare runs with the first of them, or one run with the baseline: throughput, steps, memory, cost, versions and settings.

RUN is a run's id, the path of its folder, or of its verdict.json. Runs joined by commas are repetitions on one side; the spread of their
values is the noise. Without repetitions, the noise is that of the windows within each run. A limit is exceeded only if the difference is
above it by more than the noise.

Exit codes: 0, 1 if a limit was exceeded, 3 if a limit could not be decided or the runs have no measurement in common.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from gpuproof.cli.arguments import add_backend_flags, add_command, add_format_flag
from gpuproof.cli.html_page import (
    add_html_flag,
    check_html_flag,
    is_text_replaced,
    page_footer,
    write_page,
)

if TYPE_CHECKING:
    from gpuproof.cli.arguments import Subparsers


def add_parser(commands: Subparsers) -> None:
    """Add `gpuproof compare` to the command line."""
    parser = add_command(commands, "compare", "compare runs, or a run with the baseline", __doc__)
    parser.add_argument(
        "sides",
        nargs="+",
        metavar="RUN[,RUN...]",
        help="the first is the reference; a single one is compared with the baseline",
    )
    parser.add_argument(
        "--baseline",
        nargs="?",
        const="",
        metavar="NAME",
        help="compare all of them with this baseline (without NAME: that of the run's job)",
    )
    add_file_flag(parser)
    for name, what in (
        ("slower", "the time of an example (or of a step, or of the script) grows"),
        ("cost", "the cost grows"),
        ("memory", "the memory of the fullest GPU grows"),
    ):
        parser.add_argument(
            f"--max-{name}",
            type=_share,
            metavar="PERCENT",
            help=f"exit with 1 if {what} by more, such as 5%%",
        )
    add_html_flag(parser, "the comparison with the runs in one chart")
    add_backend_flags(parser)
    add_format_flag(parser)
    parser.set_defaults(run=run)


def add_file_flag(parser: argparse.ArgumentParser) -> None:
    """Add --file."""
    parser.add_argument(
        "--file",
        type=Path,
        metavar="FILE",
        help="the file with the baselines (default: .gpuproof/baseline.json of the project)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Entry point of `gpuproof compare`."""
    check_html_flag(arguments)
    from gpuproof.app.compare import CompareRequest, compare_runs

    given = {name: getattr(arguments, name) for name in ("max_slower", "max_cost", "max_memory")}
    result = compare_runs(
        CompareRequest(
            tuple(split_runs(text) for text in arguments.sides),
            arguments.baseline,
            arguments.file,
            {name: share for name, share in given.items() if share is not None},
            arguments.on,
            arguments.region,
        )
    )
    if arguments.format == "json":
        print(json.dumps(result.to_json(), indent=2))
    elif not is_text_replaced(arguments):
        print(result)
    if arguments.html is not None:
        from gpuproof.report.compare_report import compare_page

        write_page(arguments, compare_page(result, page_footer()))
    return result.exit_code


def split_runs(text: str) -> tuple[str, ...]:
    """The runs of one side; a path may have commas."""
    if Path(text).exists():
        return (text,)
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _share(text: str) -> float:
    from gpuproof.comparison.limits import parse_share

    try:
        return parse_share(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
