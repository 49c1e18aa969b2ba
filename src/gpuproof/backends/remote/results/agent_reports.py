"""Reads the reports of a job's agents, verdict and final state, from S3 or from the log, and merges them."""

from __future__ import annotations

import json
import tarfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any

from gpuproof.agent.verdict import HostReport, merge_hosts
from gpuproof.backends.aws import Aws, AwsRefused, S3Object
from gpuproof.backends.remote.logs import Tail
from gpuproof.backends.remote.results.objects import Results

MOST_ARCHIVE = 2 << 30
"""Largest `output.tar.gz`, in bytes, that is searched for the agent's report; above that, only the log is used."""

_MOST_ARCHIVE_IF_KNOWN = 64 << 20
"""Largest archive, in bytes, that is searched if the verdict is known from the log already."""

_VERDICT, _STATE = "verdict.json", "run.json"
_FOLDER = "gpuproof"
_MOST_BYTES = 64 << 20


@dataclass(frozen=True)
class AgentReport:
    """The report of one host's agent.

    Args:
        verdict: its `verdict.json`; `None` if there is none.
        state: its `run.json`; empty if there is none.
    """

    verdict: dict[str, Any] | None = None
    state: Mapping[str, Any] = field(default_factory=dict[str, Any])
    messages: tuple[str, ...] = ()


def find_reports(
    aws: Aws,
    results: Results,
    hosts: int,
    known: Mapping[str, AgentReport],
    tails: Callable[[], Mapping[str, Tail]],
) -> tuple[dict[str, AgentReport], str]:
    """Find the reports of the agents of a job that has ended: on S3, or else in the last lines of their logs.

    Args:
        known: the reports that were read while its logs were followed.
        tails: reads the ends of the logs; called only if S3 lacks a report.

    Returns:
        The reports by host; and the reason why there is no verdict, if there is none.
    """
    is_known = len(known) >= hosts and all(
        _is_complete(agent_report.verdict) for agent_report in known.values()
    )
    found: dict[str, AgentReport] = {}
    why = "it is neither on S3 nor in the log"
    try:
        found = _on_s3(aws, results, _MOST_ARCHIVE_IF_KNOWN if is_known else MOST_ARCHIVE)
    except AwsRefused as error:
        why = error.message
    if sum(agent_report.verdict is not None for agent_report in found.values()) >= hosts:
        return found, why
    in_logs = {host: one for host, one in known.items() if one.verdict is not None}
    if len(in_logs) < hosts:
        in_logs = {
            host: AgentReport(tail.verdict, messages=tail.messages) for host, tail in tails().items()
        } | in_logs
    for host, log in in_logs.items():
        if (report := found.get(host, AgentReport())).verdict is None:
            found[host] = replace(report, verdict=log.verdict, messages=log.messages)
    return found, why


def merge_states(reports: Mapping[str, AgentReport], *, completed: bool) -> dict[str, Any]:
    """Merge the states of all hosts: the first host's state, the failure reason of the first that failed, and all notes.

    Args:
        completed: whether the job completed; if not, an agent's first message in the log is the reason.
    """
    hosts = sorted(reports, key=lambda host: (len(host), host))
    states = {
        host: reports[host].state or _state_from_messages(reports[host].messages, completed) for host in hosts
    }
    if not hosts:
        return {}
    notes: dict[str, list[str]] = {}
    for host, state in states.items():
        for note in state.get("notes", ()):
            notes.setdefault(note, []).append(host)
    merged = [
        note if len(those) == len(hosts) else f"{', '.join(those)}: {note}" for note, those in notes.items()
    ]
    reasons = [state["failure_reason"] for state in states.values() if state.get("failure_reason")]
    return {**states[hosts[0]], "notes": merged, "failure_reason": reasons[0] if reasons else None}


def _state_from_messages(messages: tuple[str, ...], completed: bool) -> dict[str, Any]:
    if completed:
        return {"notes": messages}
    return {"notes": messages[1:], "failure_reason": messages[0] if messages else None}


def _on_s3(aws: Aws, results: Results, most: int) -> dict[str, AgentReport]:
    if results.verdict is not None:
        return from_objects(aws, results.verdict.bucket, results.verdict.prefix)
    if results.archives is None:
        return {}
    archive = aws.object(results.archives.bucket, f"{results.archives.prefix}output.tar.gz")
    return {} if archive is None else from_archive(aws, archive, most)


def _is_complete(verdict: Mapping[str, Any] | None) -> bool:
    """Whether a verdict from the log has its series, all or parts of which the agent omits if the line would be too long."""
    # The memory of a GPU that the job had is known over time, too.
    return verdict is not None and all(
        "memory" in gpu.get("series", ()) or ("series" in gpu and gpu.get("peak_memory") is None)
        for gpu in verdict.get("gpus", ())
    )


def from_archive(aws: Aws, archive: S3Object, most: int = MOST_ARCHIVE) -> dict[str, AgentReport]:
    """The reports in a training job's `output.tar.gz`, by host; the archive is streamed and not stored.

    Empty if it has none, is larger than `most` bytes, or is incomplete.
    """
    if archive.size > most:
        return {}
    found: dict[str, AgentReport] = {}
    with (
        aws.open_object(archive.bucket, archive.key) as stream,
        suppress(tarfile.TarError, EOFError, zlib.error, ValueError),
        tarfile.open(fileobj=stream, mode="r|gz") as tar,
    ):
        for host, name, content in _members(tar):
            found[host] = _with(found.get(host, AgentReport()), name, content)
    return found


def from_objects(aws: Aws, bucket: str, prefix: str) -> dict[str, AgentReport]:
    """The reports that a processing job's agents uploaded below a prefix, by host."""
    found: dict[str, AgentReport] = {}
    for item in aws.list_objects(bucket, prefix.rstrip("/") + "/"):
        path = PurePosixPath(item.key)
        if path.name not in (_VERDICT, _STATE) or item.size > _MOST_BYTES:
            continue
        if (content := aws.get_bytes(item.bucket, item.key)) is not None:
            host = path.parent.name
            found[host] = _with(found.get(host, AgentReport()), path.name, content)
    return found


def merge_verdicts(reports: Mapping[str, AgentReport], hosts: int) -> dict[str, Any] | None:
    """The verdict on the job: those of its hosts, merged; `None` if no host has one.

    Args:
        hosts: the number of hosts, which SageMaker names `algo-1`, `algo-2` …
    """
    names = [f"algo-{number}" for number in range(1, hosts + 1)] if hosts > 1 else []
    return merge_hosts(
        names, {host: HostReport(report.verdict, report.state) for host, report in reports.items()}
    )


def _members(tar: tarfile.TarFile) -> Iterator[tuple[str, str, bytes]]:
    for member in tar:
        parts = [part for part in member.name.split("/") if part not in ("", ".")]
        if len(parts) != 3 or parts[0] != _FOLDER or parts[2] not in (_VERDICT, _STATE):
            continue
        if member.isreg() and member.size <= _MOST_BYTES and (file := tar.extractfile(member)) is not None:
            yield parts[1], parts[2], file.read()


def _with(report: AgentReport, name: str, content: bytes) -> AgentReport:
    """The report with one more of its files; an invalid file is ignored."""
    try:
        document = json.loads(content)
    except ValueError:
        return report
    if not isinstance(document, dict):
        return report
    if name == _STATE:
        return replace(report, state=document)
    return replace(report, verdict=document) if "outcome" in document else report
