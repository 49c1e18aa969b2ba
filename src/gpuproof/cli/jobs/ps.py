"""List runs, newest first: local runs and, if AWS is configured, those on SageMaker and EC2."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from gpuproof.cli.arguments import add_backend_flags, add_command, add_format_flag
from gpuproof.errors import ExitCode, GPUproofError

if TYPE_CHECKING:
    from gpuproof.backends.base import Backend
    from gpuproof.backends.record import RunRecord
    from gpuproof.cli.arguments import Subparsers

_NEWEST = 20
_REMOTE_SECONDS = 30.0
T = TypeVar("T")


def add_parser(commands: Subparsers) -> None:
    """Add `gpuproof ps` to the command line."""
    parser = add_command(commands, "ps", "list runs", __doc__)
    parser.add_argument(
        "-a", "--all", action="store_true", help="list all runs, not only the newest 20 and those in progress"
    )
    add_backend_flags(parser)
    add_format_flag(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Entry point of `gpuproof ps`."""
    from gpuproof.backends.errors import failure_group
    from gpuproof.backends.record import newest_records

    backends = _listed_backends(arguments)
    records: list[RunRecord] = []
    older = 0
    notes: list[str] = []
    failures: dict[str, tuple[list[str], GPUproofError]] = {}
    for backend in backends:
        try:
            found, more, remarks = _list_runs(backend, arguments)
        except GPUproofError as error:
            if len(backends) == 1 or not backend.is_remote:
                raise
            # Backends in one account usually fail for the same reason, which is stated once.
            failures.setdefault(failure_group(error), ([], error))[0].append(backend.location)
            continue
        records += found
        older += more
        notes += remarks
    for note in notes:
        print(f"gpuproof: {note}", file=sys.stderr)
    for locations, error in failures.values():
        print(
            f"gpuproof: runs {' and '.join(locations)} are not listed: {error.message} "
            "(use --on local to list only local runs)",
            file=sys.stderr,
        )
    problems = [*notes, *(error.message for _, error in failures.values())]
    records, more = newest_records(records, len(records) if arguments.all else _NEWEST)
    older += more
    if arguments.format == "json":
        from gpuproof.timestamps import with_iso_times  # for this format only

        document = {"version": 1, "runs": [with_iso_times(record.document) for record in records]}
        print(json.dumps(document | ({"problem": " ".join(problems)} if problems else {}), indent=2))
    elif records:
        print(_table(records))
        if older:
            print(f"{older} older runs: gpuproof ps --all")
    else:
        print(_no_runs(backends, has_problems=bool(problems)))
    return ExitCode.OK


def _listed_backends(arguments: argparse.Namespace) -> list[type[Backend[Any]]]:
    """The backend that `--on` names, or else all that are configured; with `--region`, those with regions count too."""
    from gpuproof.backends.registry import BACKENDS, load_backend

    if arguments.on is not None:
        return [load_backend(arguments.on)]
    known = [load_backend(name) for name in BACKENDS]
    return [
        entry
        for entry in known
        if entry.is_configured() or (arguments.region is not None and entry.has_regions)
    ]


def _list_runs(
    backend: type[Backend[Any]], arguments: argparse.Namespace
) -> tuple[list[RunRecord], int, Sequence[str]]:
    """The runs of a backend, the number of older ones, and remarks on runs that could not be read."""

    def request() -> tuple[list[RunRecord], int, Sequence[str]]:
        runs = backend.open(region=arguments.region).runs()
        records, older = (list(runs.records()), 0) if arguments.all else runs.newest(_NEWEST)
        return records, older, runs.notes

    return _within(_REMOTE_SECONDS, request) if backend.is_remote else request()


def _within(seconds: float, request: Callable[[], T]) -> T:
    """The result of a request within a time limit, so that a slow network does not delay the list of local runs."""
    import queue
    import threading

    from gpuproof.backends.aws import AwsUnreachable

    results: queue.Queue[T | BaseException] = queue.Queue()

    def work() -> None:
        try:
            results.put(request())
        except BaseException as error:  # noqa: BLE001 - raised again by the thread that waits
            results.put(error)

    threading.Thread(target=work, daemon=True).start()
    try:
        result = results.get(timeout=seconds)
    except queue.Empty:
        raise AwsUnreachable(
            f"AWS did not answer within {seconds:.0f} s.", remedy="Check the network connection."
        ) from None
    if isinstance(result, BaseException):
        raise result
    return result


def _no_runs(backends: list[type[Backend[Any]]], *, has_problems: bool) -> str:
    from gpuproof.backends.registry import default_backend, load_backend

    if len(backends) > 1 and not has_problems:
        return "There are no runs. `gpuproof run train.py` starts one."
    backend = backends[0] if len(backends) == 1 else load_backend(default_backend())
    where = f"{backend.location} in this region" if backend.has_regions else backend.location
    on = "" if backend.name == default_backend() else f" --on {backend.name}"
    return f"There are no runs {where}. `gpuproof run train.py{on}` starts one."


def _table(records: list[RunRecord]) -> str:
    from gpuproof.settings import colour
    from gpuproof.terminal.style import Style, status_colour
    from gpuproof.terminal.table import render_table
    from gpuproof.terminal.verdict import verdict_colour
    from gpuproof.util.humanize import format_clock

    now = time.time()
    has_instances = any(record.instance_type is not None for record in records)

    def row(record: RunRecord) -> list[str]:
        cells = [
            record.id,
            record.status_text,
            record.verdict_text or "-",
            time.strftime("%Y-%m-%d %H:%M", time.localtime(record.created)),
            format_clock(record.seconds(now)),
            record.backend,
        ]
        return [*cells, _instance(record), record.cost_text] if has_instances else cells

    headers = ["RUN", "STATUS", "GPU", "CREATED", "TOOK", "BACKEND"]
    if has_instances:
        headers += ["INSTANCE", "USD"]

    def code(number: int, column: int) -> str:
        record = records[number]
        status = status_colour(record.status, record.gpu_requirement_met)
        verdict = verdict_colour(record.verdict_text, record.gpu_requirement_met)
        return {1: status, 2: verdict}.get(column, "")

    return render_table(
        headers, [row(record) for record in records], right=[4, 7], style=Style(colour()), code=code
    )


def _instance(record: RunRecord) -> str:
    count = f"{record.instance_count} x " if record.instance_count > 1 else ""
    return f"{count}{record.instance_type}" if record.instance_type else "-"
