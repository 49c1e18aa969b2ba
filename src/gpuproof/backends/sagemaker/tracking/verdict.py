"""What the agents of a job left behind: their verdicts, and what became of the script; on S3 or in the log."""

from __future__ import annotations

import json
import tarfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any

from gpuproof.agent.verdict import CPU_ONLY, IDLE, NO_GPU_EXPECTED, UNKNOWN, USED
from gpuproof.backends.aws import Aws, AwsRefused, S3Object
from gpuproof.backends.sagemaker.tracking.logs import Tail
from gpuproof.backends.sagemaker.tracking.results import Results

MOST_ARCHIVE = 2 << 30
"""Bytes of an `output.tar.gz` that is read through for what the agent left in it; beyond that, the log has to do."""

_QUICKLY_READ = 64 << 20
"""Bytes of an archive that is read for what else the agent left, where the verdict is known already."""

_VERDICT, _STATE = "verdict.json", "run.json"
_FOLDER = "gpuproof"
_MOST_BYTES = 64 << 20
_WORST_FIRST = (CPU_ONLY, IDLE, UNKNOWN, USED, NO_GPU_EXPECTED)


@dataclass(frozen=True)
class Report:
    """What the agent of one host left behind.

    Args:
        verdict: its `verdict.json`; `None` where there is none.
        state: its `run.json`, empty where there is none.
        words: what it said in the log.
    """

    verdict: dict[str, Any] | None = None
    state: Mapping[str, Any] = field(default_factory=dict[str, Any])
    words: tuple[str, ...] = ()


def find_reports(
    aws: Aws,
    results: Results,
    hosts: int,
    told: Mapping[str, Report],
    tails: Callable[[], Mapping[str, Tail]],
) -> tuple[dict[str, Report], str]:
    """What the agents of a job that has ended left: on S3, else in the last lines of their logs.

    Args:
        results: where its results lie.
        hosts: how many there were.
        told: what was met while its logs were followed.
        tails: reads the ends of the logs; asked only where S3 has not all.

    Returns:
        The reports by host; and why there is no verdict, where there is none.
    """
    is_told = len(told) >= hosts and all(_is_whole(one.verdict) for one in told.values())
    found: dict[str, Report] = {}
    why = "neither S3 nor the log holds one"
    try:
        found = _on_s3(aws, results, _QUICKLY_READ if is_told else MOST_ARCHIVE)
    except AwsRefused as error:
        why = error.message
    if sum(one.verdict is not None for one in found.values()) >= hosts:
        return found, why
    known = {host: one for host, one in told.items() if one.verdict is not None}
    if len(known) < hosts:
        known = {host: Report(tail.verdict, words=tail.words) for host, tail in tails().items()} | known
    for host, one in known.items():
        if (report := found.get(host, Report())).verdict is None:
            found[host] = replace(report, verdict=one.verdict, words=one.words)
    return found, why


def state_of_all_hosts(reports: Mapping[str, Report], *, completed: bool) -> dict[str, Any]:
    """What the agents say of the whole job: the first host's state, why the first that failed did, all hosts' notes.

    Args:
        reports: by host.
        completed: whether the job did; an agent's first words in the log are otherwise why not.
    """
    hosts = sorted(reports, key=lambda host: (len(host), host))
    states = {host: reports[host].state or _state_in(reports[host].words, completed) for host in hosts}
    if not hosts:
        return {}
    notes: dict[str, list[str]] = {}
    for host, state in states.items():
        for note in state.get("notes", ()):
            notes.setdefault(note, []).append(host)
    told = [
        note if len(those) == len(hosts) else f"{', '.join(those)}: {note}" for note, those in notes.items()
    ]
    reasons = [state["failure_reason"] for state in states.values() if state.get("failure_reason")]
    return {**states[hosts[0]], "notes": told, "failure_reason": reasons[0] if reasons else None}


def _state_in(words: tuple[str, ...], completed: bool) -> dict[str, Any]:
    if completed:
        return {"notes": words}
    return {"notes": words[1:], "failure_reason": words[0] if words else None}


def _on_s3(aws: Aws, results: Results, most: int) -> dict[str, Report]:
    if results.verdict is not None:
        return from_objects(aws, results.verdict.bucket, results.verdict.prefix)
    if results.archives is None:
        return {}
    archive = aws.object(results.archives.bucket, f"{results.archives.prefix}output.tar.gz")
    return {} if archive is None else from_archive(aws, archive, most)


def _is_whole(verdict: Mapping[str, Any] | None) -> bool:
    """Whether a verdict from the log has its series: the agent leaves them out of a line that would be too long."""
    return verdict is not None and all("series" in gpu for gpu in verdict.get("gpus", ()))


def from_archive(aws: Aws, archive: S3Object, most: int = MOST_ARCHIVE) -> dict[str, Report]:
    """The reports in a training job's `output.tar.gz`, by host; the archive is read as it comes and not kept.

    Empty where it holds none, has more bytes than `most`, or is no whole archive.
    """
    if archive.size > most:
        return {}
    found: dict[str, Report] = {}
    with (
        aws.open_object(archive.bucket, archive.key) as stream,
        suppress(tarfile.TarError, EOFError, zlib.error, ValueError),
        tarfile.open(fileobj=stream, mode="r|gz") as tar,
    ):
        for host, name, content in _members(tar):
            found[host] = _with(found.get(host, Report()), name, content)
    return found


def from_objects(aws: Aws, bucket: str, prefix: str) -> dict[str, Report]:
    """The reports that a processing job's agents uploaded below a prefix, by host."""
    found: dict[str, Report] = {}
    for item in aws.list_objects(bucket, prefix.rstrip("/") + "/"):
        path = PurePosixPath(item.key)
        if path.name not in (_VERDICT, _STATE) or item.size > _MOST_BYTES:
            continue
        if (content := aws.get_bytes(item.bucket, item.key)) is not None:
            host = path.parent.name
            found[host] = _with(found.get(host, Report()), path.name, content)
    return found


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


def _members(tar: tarfile.TarFile) -> Iterator[tuple[str, str, bytes]]:
    for member in tar:
        parts = [part for part in member.name.split("/") if part not in ("", ".")]
        if len(parts) != 3 or parts[0] != _FOLDER or parts[2] not in (_VERDICT, _STATE):
            continue
        if member.isreg() and member.size <= _MOST_BYTES and (file := tar.extractfile(member)) is not None:
            yield parts[1], parts[2], file.read()


def _with(report: Report, name: str, content: bytes) -> Report:
    """A report with one more of its files; what is no such file changes nothing."""
    try:
        document = json.loads(content)
    except ValueError:
        return report
    if not isinstance(document, dict):
        return report
    if name == _STATE:
        return replace(report, state=document)
    return replace(report, verdict=document) if "outcome" in document else report
