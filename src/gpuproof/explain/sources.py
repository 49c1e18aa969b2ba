"""Reads and explains logs: files (gzipped or not), standard input, the folder of a local run, lines of a remote run."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from io import BufferedReader
from pathlib import Path
from typing import Any

from gpuproof.agent.paths import RunPaths
from gpuproof.explain.context import Context
from gpuproof.explain.job_facts import read_job_facts
from gpuproof.explain.report import Report, make_report
from gpuproof.explain.scan import BLOCK_BYTES, Scan, scan_chunks, scan_lines

_GZIP = b"\x1f\x8b"


def explain_file(path: Path, context: Context) -> Report:
    """Explain a log file.

    Raises:
        OSError: the file cannot be read.
    """
    with path.open("rb") as stream:
        return explain_stream(stream, context, str(path))


def explain_stream(stream: BufferedReader, context: Context, name: str | None = None) -> Report:
    """Explain a stream, gzipped or not, up to its end."""
    return make_report([_scan_stream(stream, name)], context)


def explain_run(paths: RunPaths, failure_reason: str | None, context: Context) -> Report:
    """Explain a run on this machine from the logs of all its hosts and its failure reason.

    Args:
        failure_reason: why the run did not complete, as its record says.
        context: this machine, with `failed` set.
    """
    scans = [_scan_file(log) for log in sorted(paths.logs.glob("*.log"))]
    return make_report(_with_reason(scans, failure_reason), _with_job(paths, context))


def explain_job(logs: Mapping[str, Iterable[str]], failure_reason: str | None, context: Context) -> Report:
    """Explain a remote run from the logs of all its hosts and its failure reason.

    Args:
        failure_reason: why the job did not complete, as the service says.
        context: where the job ran, with `failed` set.
    """
    scans = [scan_lines(lines, name) for name, lines in logs.items()]
    return make_report(_with_reason(scans, failure_reason), context)


def _with_reason(scans: list[Scan], failure_reason: str | None) -> list[Scan]:
    seen = {code for scan in scans for code in scan.occurrences}
    return [*scans, _only_new(scan_lines([failure_reason or ""]), seen)]


def _scan_file(log: Path) -> Scan:
    with log.open("rb") as file:
        return _scan_stream(file, str(log))


def _scan_stream(stream: BufferedReader, name: str | None) -> Scan:
    # Peek instead of read: a pipe cannot be rewound.
    is_gzip = stream.peek(len(_GZIP)).startswith(_GZIP)
    return scan_chunks(_decompress(stream) if is_gzip else _read_chunks(stream), name)


def _only_new(reason: Scan, seen: set[str]) -> Scan:
    """Keep the errors of the failure reason that the logs do not have: it mostly repeats a line of a log."""
    occurrences = {
        code: replace(occurrence, line=0, last_line=0)
        for code, occurrence in reason.occurrences.items()
        if code not in seen
    }
    return replace(reason, occurrences=occurrences, failure=None)


def _with_job(paths: RunPaths, context: Context) -> Context:
    document: dict[str, Any] = {}
    with suppress(OSError, ValueError):
        document = json.loads(paths.job.read_text(encoding="utf-8"))
    expected = document.get("expected_gpus")
    # On a machine without a GPU a job is only tried out: no GPU is expected to be used.
    gpu_expected = None if expected is None else expected > 0 and context.gpus != ()
    if document.get("require_gpu"):
        gpu_expected = True
    return replace(
        context,
        instance_type=context.instance_type or document.get("instance_type"),
        gpu_expected=gpu_expected,
        hosts=len(document["hosts"]) if document.get("hosts") else context.hosts,
        job=read_job_facts(document, paths) if document else None,
    )


def _decompress(stream: BufferedReader) -> Iterator[bytes]:
    # A truncated or damaged archive is read as far as possible.
    with gzip.GzipFile(fileobj=stream) as archive, suppress(EOFError, gzip.BadGzipFile, zlib.error):
        while chunk := archive.read1(BLOCK_BYTES):
            yield chunk


def _read_chunks(stream: BufferedReader) -> Iterator[bytes]:
    # read1 returns what is available instead of waiting for a slow pipe to fill a block.
    while chunk := stream.read1(BLOCK_BYTES):
        yield chunk
