"""Run a command, or attach to one that runs already, and prove what its GPUs did.

The command keeps its input, output, signals, working folder and exit code. The verdict goes to standard error at the end.

gpuproof watch -- torchrun --nproc-per-node 4 train.py
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from gpuproof.util.process_tree import die_by_signal
from gpuproof.watch.group.launcher import find_member
from gpuproof.watch.report import WatchReport, exit_code, report_text
from gpuproof.watch.sagemaker import publish
from gpuproof.watch.settings import WatchSettings

_WIDEST = 100
"""Characters per line: longer lines are hard to read."""
NO_GROUP = (
    "--to brings the hosts of one job together, and nothing says which job this is: "
    "start it with srun, mpirun, torchrun or as an indexed Kubernetes job, or name it with --group NAME."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `gpuproof watch`."""
    parser.add_argument(
        "--gpus", type=int, metavar="N", help="GPUs that must work (default: all that the command can see)"
    )
    parser.add_argument(
        "--no-require-gpu",
        dest="require_gpu",
        action="store_false",
        help="report only: no exit code 4 if the GPUs did no work",
    )
    parser.add_argument("--report", type=Path, metavar="FILE", help="write the report to a file, as JSON")
    parser.add_argument(
        "--group",
        metavar="NAME",
        help="the job that this process is a part of (default: the one of srun, mpirun, torchrun or Kubernetes)",
    )
    parser.add_argument(
        "--hosts", type=int, metavar="N", help="number of the job's hosts (default: as the launcher says)"
    )
    parser.add_argument(
        "--to",
        metavar="DIR|s3://…",
        help="where the job's hosts leave their reports, so that the last one prints the verdict on all",
    )
    parser.add_argument(
        "--format",
        choices=("text", "json"),
        default="text",
        help="of the verdict on standard error (default: text)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Watch what the arguments name; returns the exit code.

    Args:
        arguments: those of `add_arguments`, and `script_arguments`: the words after `--`, `None` without it.
    """
    from gpuproof.watch.command import watch_command  # not needed for --help

    command: list[str] | None = arguments.script_arguments
    if not command:
        print(
            "gpuproof: Write the command after --, as in: gpuproof watch -- python train.py", file=sys.stderr
        )
        return 2
    member = find_member(os.environ, arguments.group, arguments.hosts)
    if member is None and arguments.to is not None:
        print(f"gpuproof: {NO_GROUP}", file=sys.stderr)
        return 2
    settings = WatchSettings(
        gpus=arguments.gpus,
        require_gpu=arguments.require_gpu,
        hosts=member.least_hosts if member is not None else 1,
        group=member.group if member is not None else None,
        to=arguments.to,
    )
    is_one_of_many = member is not None and (member.has_peers or arguments.to is not None)
    reports: list[WatchReport] = []
    code = watch_command(command, settings, reports.append, member if is_one_of_many else None)
    for report in reports:
        # The monitor process has brought that of a job with several processes where it belongs.
        own = report if is_one_of_many else publish(report, os.environ)
        show(own, arguments.format, arguments.report)
    if code < 0:
        die_by_signal(-code)
    return exit_code(code, reports[0]) if reports else code


def show(report: WatchReport, form: str, file: Path | None) -> None:
    """Print a report to standard error, and write it to a file.

    Args:
        form: `text` or `json`.
    """
    document = json.dumps(report.to_json(), indent=2)
    if file is not None:
        try:
            file.write_text(document + "\n")
        except OSError as error:
            print(f"gpuproof: {file} could not be written: {error.strerror}.", file=sys.stderr)
    if form == "json":
        print(document, file=sys.stderr)
        return
    width = min(_WIDEST, shutil.get_terminal_size((_WIDEST, 0)).columns)
    has_colour = "NO_COLOR" not in os.environ and sys.stderr.isatty()
    print(report_text(report, width, has_colour), file=sys.stderr)


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of `gpuproof-agent.pyz watch` and of the monitor process."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["monitor"]:
        from gpuproof.watch.monitor_process import serve  # most commands start none

        return serve(int(words[1]))
    parser = argparse.ArgumentParser(
        prog="gpuproof-agent.pyz watch",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add_arguments(parser)
    words = words[1:] if words[:1] == ["watch"] else words
    end = words.index("--") if "--" in words else len(words)
    arguments = parser.parse_args(words[:end])
    arguments.script_arguments = words[end + 1 :] or None
    return run(arguments)
