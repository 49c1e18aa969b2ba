"""Reading logs: from a file, gzipped or not, from standard input, from the folder of a run, from a run elsewhere."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuproof.agent.paths import RunPaths
from gpuproof.agent.state import FAILED
from gpuproof.explain.context import Context
from gpuproof.explain.report import Report, make_report
from gpuproof.explain.scan import BLOCK, Scan, scan_chunks, scan_lines

if TYPE_CHECKING:
    from gpuproof.backends.record import RunRecord

_GZIP = b"\x1f\x8b"


def explain_file(path: Path, context: Context) -> Report:
    """What a log says.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb") as stream:
        return explain_stream(stream, context, str(path))


def explain_stream(stream: BufferedReader, context: Context, name: str | None = None) -> Report:
    """What is said on a stream, gzipped or not, to its end."""
    return make_report([_scanned(stream, name)], context)


def explain_run(paths: RunPaths, record: RunRecord, context: Context) -> Report:
    """What the logs of a run on this machine say, all hosts together, with how it ended.

    Args:
        paths: the run's folder.
        context: this machine.
    """
    scans = [_scanned_file(log) for log in sorted(paths.logs.glob("*.log"))]
    return make_report(_with_reason(scans, record), _of_run(paths, record, context))


def explain_job(logs: Mapping[str, Iterable[str]], record: RunRecord, context: Context) -> Report:
    """What the logs of a run elsewhere say, all hosts together, with how it ended.

    Args:
        logs: the lines of each log by its name.
        context: where it ran.
    """
    scans = [scan_lines(lines, name) for name, lines in logs.items()]
    return make_report(_with_reason(scans, record), replace(context, failed=record.status == FAILED))


def _with_reason(scans: list[Scan], record: RunRecord) -> list[Scan]:
    seen = {code for scan in scans for code in scan.sightings}
    return [*scans, _only_new(scan_lines([record.failure_reason or ""]), seen)]


def _scanned_file(log: Path) -> Scan:
    with log.open("rb") as file:
        return _scanned(file, str(log))


def _scanned(stream: BufferedReader, name: str | None) -> Scan:
    # Looked at and not read: a pipe cannot be wound back.
    is_gzip = stream.peek(len(_GZIP)).startswith(_GZIP)
    return scan_chunks(_unpacked(stream) if is_gzip else _chunks(stream), name)


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


def _unpacked(stream: BufferedReader) -> Iterator[bytes]:
    # An archive that is cut off or broken still holds what comes before that.
    with gzip.GzipFile(fileobj=stream) as archive, suppress(EOFError, gzip.BadGzipFile, zlib.error):
        while chunk := archive.read1(BLOCK):
            yield chunk


def _chunks(stream: BufferedReader) -> Iterator[bytes]:
    # read1 gives what is there: a pipe that goes on slowly is not waited for to fill a block.
    while chunk := stream.read1(BLOCK):
        yield chunk
