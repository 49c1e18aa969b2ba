"""List runs, newest first: those on this machine and, where AWS is set up, those on SageMaker."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from gpuproof.cli.arguments import add_backend_flags, add_command, add_format_flag
from gpuproof.errors import ExitCode

if TYPE_CHECKING:
    from gpuproof.backends.record import RunRecord
    from gpuproof.cli.arguments import Subparsers

_NEWEST = 20
_AWS_SECONDS = 30.0


def add_parser(commands: Subparsers) -> None:
    """Add `gpuproof ps` to the command line."""
    parser = add_command(commands, "ps", "list runs", __doc__)
    parser.add_argument(
        "-a", "--all", action="store_true", help="all runs, not the newest 20 and those that go on"
    )
    add_backend_flags(parser)
    add_format_flag(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Entry point of `gpuproof ps`."""
    from gpuproof.backends.base import LOCAL, SAGEMAKER

    records: list[RunRecord] = []
    older = 0
    places = _places(arguments)
    if LOCAL in places:
        records, older = _local(arguments.all)
    problem: str | None = None
    if SAGEMAKER in places:
        there, beside, problem = _on_sagemaker(arguments, alone=places == [SAGEMAKER])
        older += beside
        if there:
            records, cut = _newest([*records, *there], None if arguments.all else _NEWEST)
            older += cut
    if arguments.format == "json":
        document = {"version": 1, "runs": [dict(record.document) for record in records]}
        print(json.dumps(document | ({"problem": problem} if problem else {}), indent=2))
    elif records:
        print(_table(records))
        if older:
            print(f"{older} older runs: gpuproof ps --all")
    else:
        print(_nothing(places, problem))
    return ExitCode.OK


def _nothing(places: list[str], problem: str | None) -> str:
    from gpuproof.backends.base import LOCAL, SAGEMAKER

    if places == [SAGEMAKER]:
        return (
            "There are no runs on SageMaker in this region. `gpuproof run train.py --on sagemaker` makes one."
        )
    where = "on this machine" if places == [LOCAL] or problem else "here"
    return f"There are no runs {where}. `gpuproof run train.py` makes one."


def _places(arguments: argparse.Namespace) -> list[str]:
    from gpuproof.backends.base import LOCAL, SAGEMAKER
    from gpuproof.settings import aws_is_set_up

    if arguments.on is not None:
        return [arguments.on]
    return [LOCAL, SAGEMAKER] if arguments.region is not None or aws_is_set_up() else [LOCAL]


def _local(everything: bool) -> tuple[list[RunRecord], int]:
    from gpuproof.backends.local.runs import local_runs

    return _newest(list(local_runs().records()), None if everything else _NEWEST)


def _newest(records: list[RunRecord], count: int | None) -> tuple[list[RunRecord], int]:
    """The newest runs and all that go on; and how many are left out."""
    ordered = sorted(records, key=lambda record: (record.created, record.id), reverse=True)
    if count is None:
        return ordered, 0
    shown = [*ordered[:count], *(record for record in ordered[count:] if not record.has_ended)]
    return shown, len(ordered) - len(shown)


def _on_sagemaker(arguments: argparse.Namespace, *, alone: bool) -> tuple[list[RunRecord], int, str | None]:
    """SageMaker's runs, how many older ones there are, and what went wrong; `alone`: then that is an error."""
    from gpuproof.backends.aws import Aws
    from gpuproof.backends.sagemaker.store import SageMakerRuns
    from gpuproof.errors import GPUproofError

    def ask() -> tuple[list[RunRecord], int]:
        runs = SageMakerRuns(Aws(region=arguments.region))
        return (list(runs.records()), 0) if arguments.all else runs.newest(_NEWEST)

    try:
        records, older = _within(_AWS_SECONDS, ask)
    except GPUproofError as error:
        if alone:
            raise
        print(
            f"gpuproof: SageMaker's runs are not listed: {error.message} (--on local leaves them out)",
            file=sys.stderr,
        )
        return [], 0, error.message
    return records, older, None


def _within(seconds: float, ask: Callable[[], tuple[list[RunRecord], int]]) -> tuple[list[RunRecord], int]:
    """What is answered within that time: runs on this machine must not wait long for a network that is away."""
    import queue
    import threading

    from gpuproof.backends.aws import AwsUnreachable
    from gpuproof.errors import GPUproofError

    answers: queue.Queue[tuple[list[RunRecord], int] | BaseException] = queue.Queue()

    def work() -> None:
        try:
            answers.put(ask())
        except BaseException as error:  # noqa: BLE001 - it is raised in the thread that waits
            answers.put(error)

    threading.Thread(target=work, daemon=True).start()
    try:
        answer = answers.get(timeout=seconds)
    except queue.Empty:
        raise AwsUnreachable(
            f"AWS did not answer within {seconds:.0f} s.", remedy="Look at the network."
        ) from None
    if isinstance(answer, GPUproofError):
        raise answer
    if isinstance(answer, BaseException):
        raise answer
    return answer


def _table(records: list[RunRecord]) -> str:
    from gpuproof.terminal.table import render_table
    from gpuproof.util.humanize import format_clock, format_usd

    now = time.time()
    elsewhere = any(record.instance_type is not None for record in records)

    def row(record: RunRecord) -> list[str]:
        cells = [
            record.id,
            record.status,
            record.verdict or "-",
            time.strftime("%Y-%m-%d %H:%M", time.localtime(record.created)),
            format_clock(record.seconds(now)),
            record.place,
        ]
        return [*cells, _instance(record), format_usd(record.cost)] if elsewhere else cells

    headers = ["RUN", "STATUS", "GPU", "CREATED", "TOOK", "PLACE"]
    if elsewhere:
        headers += ["INSTANCE", "USD"]
    return render_table(headers, [row(record) for record in records], right=[4, 7])


def _instance(record: RunRecord) -> str:
    count = f"{record.instance_count} x " if record.instance_count > 1 else ""
    return f"{count}{record.instance_type}" if record.instance_type else "-"
