"""Reading logs: from a file, gzipped or not, from standard input, from the folder of a run."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from tarmac.agent.paths import RunPaths
from tarmac.agent.state import FAILED
from tarmac.explain.context import Context
from tarmac.explain.report import Report, make_report
from tarmac.explain.scan import BLOCK, Scan, scan_chunks, scan_lines

if TYPE_CHECKING:
    from tarmac.places.record import RunRecord

_GZIP = b"\x1f\x8b"


def explain_file(path: Path, context: Context) -> Report:
    """What a log says.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        is_gzip = file.read(2) == _GZIP
    with gzip.open(path) if is_gzip else path.open("rb") as stream:
        return make_report([scan_chunks(_chunks(stream), str(path))], context)


def explain_stream(stream: BinaryIO, context: Context, name: str | None = None) -> Report:
    """What is said on a stream, to its end."""
    return make_report([scan_chunks(_chunks(stream), name)], context)


def explain_run(paths: RunPaths, record: RunRecord, context: Context) -> Report:
    """What the logs of a run on this machine say, all hosts together, with how it ended.

    Args:
        paths: the run's folder.
        context: this machine.
    """
    scans = [_scanned(log) for log in sorted(paths.logs.glob("*.log"))]
    seen = {code for scan in scans for code in scan.sightings}
    reason = scan_lines([record.failure_reason or ""])
    return make_report([*scans, _only_new(reason, seen)], _of_run(paths, record, context))


def _scanned(log: Path) -> Scan:
    with log.open("rb") as file:
        return scan_chunks(_chunks(file), str(log))


def _only_new(reason: Scan, seen: set[str]) -> Scan:
    """What the agent said of the end: no line of the log, and mostly a line of it once more."""
    sightings = {
        code: replace(one, line=0, last_line=0) for code, one in reason.sightings.items() if code not in seen
    }
    return replace(reason, sightings=sightings, failure=None)


def _of_run(paths: RunPaths, record: RunRecord, context: Context) -> Context:
    document: dict[str, Any] = {}
    with suppress(OSError, ValueError):
        document = json.loads(paths.job.read_text(encoding="utf-8"))
    expected = document.get("expected_gpus")
    # A machine without a GPU is where a job is tried out: it says so itself, and nobody expects one to be used there.
    meant = None if expected is None else expected > 0 and context.gpus != ()
    if document.get("require_gpu"):
        meant = True
    return replace(
        context,
        instance_type=context.instance_type or document.get("instance_type"),
        gpu_expected=meant,
        failed=record.status == FAILED,
    )


def _chunks(stream: Any) -> Iterator[bytes]:
    # read1 gives what is there: a pipe that goes on slowly is not waited for to fill a block.
    read = getattr(stream, "read1", stream.read)
    while chunk := read(BLOCK):
        yield chunk
