"""A job's verdict: from S3, else from the last line of its log."""

from __future__ import annotations

import json
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import PurePosixPath
from typing import Any

from tarmac.agent.verdict import CPU_ONLY, IDLE, NO_GPU_EXPECTED, UNKNOWN, USED
from tarmac.places.aws import Aws, S3Object

MOST_ARCHIVE = 2 << 30
"""Bytes of an `output.tar.gz` that is read through for the verdict in it; beyond that, the log has to do."""

_FILE = "verdict.json"
_FOLDER = "tarmac"
_MOST_BYTES = 64 << 20
_WORST_FIRST = (CPU_ONLY, IDLE, UNKNOWN, USED, NO_GPU_EXPECTED)


def from_archive(aws: Aws, archive: S3Object) -> dict[str, dict[str, Any]]:
    """The verdicts in a training job's `output.tar.gz`, by host; the archive is read as it comes and not kept.

    Empty where it holds none, is too large to be read through for it, or is no whole archive.
    """
    if archive.size > MOST_ARCHIVE:
        return {}
    found: dict[str, dict[str, Any]] = {}
    with (
        aws.open_object(archive.bucket, archive.key) as stream,
        suppress(tarfile.TarError, EOFError, zlib.error, ValueError),
        tarfile.open(fileobj=stream, mode="r|gz") as tar,
    ):
        for host, content in _members(tar):
            if (verdict := read_verdict(content)) is not None:
                found[host] = verdict
    return found


def from_objects(aws: Aws, bucket: str, prefix: str) -> dict[str, dict[str, Any]]:
    """The verdicts that a processing job's agents uploaded below a prefix, by host."""
    found: dict[str, dict[str, Any]] = {}
    for item in aws.list_objects(bucket, prefix.rstrip("/") + "/"):
        path = PurePosixPath(item.key)
        if path.name != _FILE or item.size > _MOST_BYTES:
            continue
        content = aws.get_bytes(item.bucket, item.key)
        if content is not None and (verdict := read_verdict(content)) is not None:
            found[path.parent.name] = verdict
    return found


def read_verdict(content: bytes) -> dict[str, Any] | None:
    """The verdict in a `verdict.json`; `None` where it is something else."""
    try:
        document = json.loads(content)
    except ValueError:
        return None
    return document if isinstance(document, dict) and "outcome" in document else None


def of_all_hosts(verdicts: Mapping[str, Mapping[str, Any]]) -> dict[str, Any] | None:
    """The verdict of a job by those of its hosts: the worst one, with a note of what the others say.

    One host whose GPUs do nothing is billed as much as the others.
    """
    if not verdicts:
        return None
    hosts = sorted(verdicts, key=lambda host: (len(host), host))
    worst = min(hosts, key=lambda host: _badness(verdicts[host]))
    chosen = dict(verdicts[worst])
    if len(hosts) > 1:
        said = ", ".join(f"{host} {verdicts[host]['outcome']}" for host in hosts)
        note = f"{len(hosts)} hosts: {said}; this is the verdict of {worst}"
        chosen["notes"] = [note, *chosen.get("notes", ())]
    return chosen


def _badness(verdict: Mapping[str, Any]) -> tuple[bool, int]:
    outcome = verdict["outcome"]
    rank = _WORST_FIRST.index(outcome) if outcome in _WORST_FIRST else len(_WORST_FIRST)
    return verdict.get("gpu_requirement_met", True) is not False, rank


def _members(tar: tarfile.TarFile) -> Iterator[tuple[str, bytes]]:
    for member in tar:
        parts = [part for part in member.name.split("/") if part not in ("", ".")]
        if len(parts) != 3 or parts[0] != _FOLDER or parts[2] != _FILE:
            continue
        if member.isreg() and member.size <= _MOST_BYTES and (file := tar.extractfile(member)) is not None:
            yield parts[1], file.read()
