"""Run a command, or attach to one that runs already, and prove what its GPUs did.

The command keeps its input, output, signals, working folder and exit code. The verdict goes to standard error at the end.

  gpuproof watch -- torchrun --nproc-per-node 4 train.py
  gpuproof watch --pid 4242
  gpuproof watch --for 60s
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Callable, TextIO

from gpuproof.util.durations import parse_duration
from gpuproof.util.launcher import find_member
from gpuproof.util.process_tree import die_by_signal
from gpuproof.watch.group.location import S3_SCHEME, bucket_of
from gpuproof.watch.report import WatchReport, exit_code, report_text
from gpuproof.watch.sagemaker import publish
from gpuproof.watch.settings import DEFAULT_GRACE_S, IF_UNUSED, WatchSettings

NO_GROUP = (
    "--to brings the hosts of one job together, and nothing says which job this is: "
    "start it with srun, mpirun, torchrun or as an indexed Kubernetes job, or name it with --group NAME."
)
NO_STALL_TIMEOUT = "--stall-timeout works for commands of one process, and this is one of several of its job."
TERMINATION_LOG = "/dev/termination-log"
"""Where Kubernetes reads a container's termination message, unless the container names another path."""
_REMOTE_LAUNCHERS = ("srun", "sbatch")
"""Commands whose processes are started by another one, also on this host."""
_WIDEST = 100
"""Characters per line: longer lines are hard to read."""


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
    parser.add_argument(
        "--pid",
        type=int,
        action="append",
        metavar="PID",
        help="watch a running process and its descendants until it ends, or Ctrl-C; several count as one program",
    )
    parser.add_argument(
        "--for",
        dest="seconds",
        type=_duration,
        metavar="DURATION",
        help="watch whatever uses a GPU of this machine for so long, as in 60s; with --pid, at most so long",
    )
    parser.add_argument(
        "--if-unused",
        choices=IF_UNUSED,
        help="end the command, or print a line, if no GPU has done any work after --grace",
    )
    parser.add_argument(
        "--grace",
        type=_duration,
        default=DEFAULT_GRACE_S,
        metavar="DURATION",
        help="how long GPUs may be unused at the start, as in 90s, 5m, 1h (default: 5m)",
    )
    parser.add_argument(
        "--stall-timeout",
        type=_duration,
        metavar="DURATION",
        help="end the command if no GPU does any work and nothing is written for so long",
    )
    parser.add_argument(
        "--no-live",
        dest="live",
        action="store_false",
        help="no line about the GPUs on the terminal while the command runs",
    )
    parser.add_argument("--report", type=Path, metavar="FILE", help="write the report to a file, as JSON")
    parser.add_argument(
        "--termination-message",
        type=Path,
        nargs="?",
        const=Path(TERMINATION_LOG),
        metavar="FILE",
        help=f"append the verdict to the container's termination message in Kubernetes (default: {TERMINATION_LOG})",
    )
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
        help="of the verdict, on standard error after a command, and else on standard output (default: text)",
    )
    parser.add_argument(
        "--json", dest="format", action="store_const", const="json", help="same as --format json"
    )


Completion = Callable[[WatchReport], WatchReport]
"""Adds what only the caller knows to a report, such as the cost."""


def run(arguments: argparse.Namespace, complete: Completion = lambda report: report) -> int:
    """Watch what the arguments name; returns the exit code.

    Args:
        arguments: those of `add_arguments`, and `script_arguments`: the words after `--`, `None` without it.
        complete: is called with the report before it is shown.
    """
    command: list[str] | None = arguments.script_arguments
    if arguments.pid or arguments.seconds is not None:
        return _run_without_command(arguments, complete)
    if command and os.getpid() == 1:
        from gpuproof.watch.prefix.init import run_as_init  # only containers need it

        return run_as_init(lambda: run(arguments, complete))
    from gpuproof.watch.prefix.command import watch_command  # not needed for --help

    if not command:
        print(
            "gpuproof: Write the command after --, as in: gpuproof watch -- python train.py", file=sys.stderr
        )
        return 2
    if Path(command[0]).name in _REMOTE_LAUNCHERS:
        print(f"gpuproof: {_not_seen(command)}", file=sys.stderr)
        return 2
    member = find_member(os.environ, arguments.group, arguments.hosts)
    is_one_of_many = member is not None and (member.has_peers or arguments.to is not None)
    problem = _report_problem(arguments.report)
    if arguments.hosts is not None and arguments.hosts < 1:
        problem = f"--hosts {arguments.hosts}: a job has at least one host."
    elif member is None and arguments.to is not None:
        problem = NO_GROUP
    elif arguments.to is not None and arguments.to.startswith(S3_SCHEME) and not bucket_of(arguments.to):
        problem = f"--to {arguments.to} names no bucket. Write s3://BUCKET/PREFIX."
    elif is_one_of_many and arguments.stall_timeout is not None:
        problem = NO_STALL_TIMEOUT
    if problem is not None:
        print(f"gpuproof: {problem}", file=sys.stderr)
        return 2
    settings = WatchSettings(
        gpus=arguments.gpus,
        require_gpu=arguments.require_gpu,
        if_unused=arguments.if_unused,
        grace=arguments.grace,
        stall_timeout=arguments.stall_timeout,
        hosts=member.least_hosts if member is not None else 1,
        group=member.group if member is not None else None,
        to=arguments.to,
    )
    reports: list[WatchReport] = []

    def end(report: WatchReport) -> None:
        reports.append(report)
        # The monitor process has brought that of a job with several processes where it belongs.
        own = complete(report) if is_one_of_many else publish(complete(report), os.environ)
        show(own, arguments.format, arguments.report)
        _write_termination_message(own, arguments.termination_message)

    code = watch_command(command, settings, end, member if is_one_of_many else None, live=arguments.live)
    if reports:
        code = exit_code(code, reports[0])
    if code < 0:
        sys.stdout.flush()
        die_by_signal(-code)
    return code


def _run_without_command(arguments: argparse.Namespace, complete: Completion) -> int:
    from gpuproof.watch.running.run import run_without_command  # most runs have a command

    def end(report: WatchReport) -> None:
        report = complete(report)
        show(report, arguments.format, arguments.report, sys.stdout)
        _write_termination_message(report, arguments.termination_message)

    if (problem := _report_problem(arguments.report)) is not None:
        print(f"gpuproof: {problem}", file=sys.stderr)
        return 2
    return run_without_command(
        arguments, WatchSettings(gpus=arguments.gpus, require_gpu=arguments.require_gpu), end
    )


def _write_termination_message(report: WatchReport, file: Path | None) -> None:
    if file is None:
        return
    from gpuproof.watch.termination_message import write_termination_message  # only in Kubernetes

    try:
        write_termination_message(report, file)
    except OSError as error:
        print(f"gpuproof: {file} could not be written: {error.strerror}.", file=sys.stderr)


def _not_seen(command: Sequence[str]) -> str:
    launcher = Path(command[0]).name
    where = "srun gpuproof watch -- python train.py"
    if launcher == "sbatch":
        where = f"in the script that sbatch submits, {where}"
    return (
        f"{launcher} has its processes started by Slurm's daemons, where a watch of {launcher} does not see them. "
        f"Watch each of them: {where}"
    )


def show(report: WatchReport, form: str, file: Path | None, stream: TextIO | None = None) -> None:
    """Print a report, and write it to a file.

    Args:
        form: `text` or `json`.
        stream: where to print; standard error if `None`.
    """
    document = json.dumps(report.to_json(), indent=2)
    if file is not None:
        try:
            file.write_text(document + "\n")
        except OSError as error:
            _print_error(f"gpuproof: {file} could not be written: {error.strerror}.")
    target = sys.stderr if stream is None else stream
    text = document
    if form != "json":
        width = min(_WIDEST, shutil.get_terminal_size((_WIDEST, 0)).columns)
        has_colour = "NO_COLOR" not in os.environ and target.isatty()
        text = report_text(report, width, has_colour)
    if stream is None:
        _print_error(text)
    else:
        print(text, file=target)


def _print_error(text: str) -> None:
    """Print to standard error; a reader that is gone or a full disk must not change the exit code of a command."""
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115, PTH123 - Python flushes it at the end


def _report_problem(file: Path | None) -> str | None:
    """Why the report cannot be written, if that is known before the command starts."""
    if file is None:
        return None
    if file.is_dir():
        return (
            f"--report {file} is a folder. Write the name of a file, as in: --report {file / 'report.json'}"
        )
    if not file.parent.is_dir():
        return f"--report {file}: there is no folder {file.parent}. To create it: mkdir -p {file.parent}"
    if not os.access(file if file.exists() else file.parent, os.W_OK):
        return f"--report {file} cannot be written: no permission."
    return None


def _duration(text: str) -> float:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


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
