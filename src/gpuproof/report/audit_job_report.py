"""The page of one audited job or endpoint: its GPUs over time, its log, its code, and the smaller instance that would have done."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gpuproof.agent.verdict import USED
from gpuproof.report.audit_rows import moment
from gpuproof.report.charts import Line, LineChart, Tone
from gpuproof.report.page import Block, Callout, Facts, Page, Section, Status, Table, Text
from gpuproof.util.humanize import format_duration, format_usd, pluralize

_MOST_LINES = 8
"""Hosts that have a line each; more of them are one line, with a band from the lowest to the highest."""
_SERIES = (
    ("gpu", "GPU utilization", "percent", "Percent of all GPUs of the host."),
    ("gpu_memory", "GPU memory", "percent", "Percent of the memory of all GPUs of the host."),
    ("cpu", "CPU cores", "number", "Busy cores of the host."),
)
_Values = dict[float, float]
"""Of a host, by the seconds since the first value of all."""


def audit_job_page(document: Mapping[str, Any], footer: str = "") -> Page:
    """The page.

    Args:
        document: as of `gpuproof audit JOB --format json`.
        footer: what wrote the page, and when.
    """
    jobs = document["jobs"]
    sections = [section for job in jobs for section in _sections(job, with_name=len(jobs) > 1)]
    problems = [
        Callout("warning", "not read", f"{problem['not_read']} in {problem['region']}: {problem['message']}")
        for problem in document["problems"]
    ]
    if problems:
        sections.append(Section("What could not be read", problems))
    first = jobs[0]
    status = Status(first["verdict"], _tone(first)) if len(jobs) == 1 else None
    subtitle = f"{first['kind']} in {first['region']}, {first['instance_count']} x {first['instance_type']}"
    return Page(f"Audit of {document['name']}", subtitle, status, sections, footer)


def _tone(job: Mapping[str, Any]) -> Tone:
    return "good" if job["verdict"] == USED else "bad" if job["wasted_usd"] else "warning"


def _sections(job: Mapping[str, Any], *, with_name: bool) -> Iterator[Section]:
    name = f"{job['name']}/{job['variant']}" if job["variant"] else job["name"]
    before = f"{name}: " if with_name else ""
    for heading, blocks in (
        ("Verdict", _verdict(job)),
        ("Over time", _over_time(job["utilization"])),
        ("Log", _log(job)),
        ("Code", _code(job["code"])),
    ):
        if found := list(blocks):
            yield Section(f"{before}{heading}", found)


def _verdict(job: Mapping[str, Any]) -> Iterator[Block]:
    yield Callout(_tone(job), job["verdict"], job["reason"])
    if job["remedy"]:
        yield Callout("neutral", "next", job["remedy"])
    if job["smaller"]:
        yield Callout("neutral", "cheaper", job["smaller"]["text"])
    bound = "" if job["is_certain"] else "up to "
    seconds = job["billed_seconds"]
    rows = [
        ("Status", job["status"] + (", running" if job["running"] else "")),
        ("Instances", f"{job['instance_count']} x {job['instance_type']}"),
        ("GPUs", "unknown" if job["gpus"] is None else f"{job['gpus']} x {job['gpu']}"),
        ("Started", _time(job["started"])),
        ("Ended", _time(job["ended"])),
        ("Billed", "" if seconds is None else format_duration(seconds)),
        ("Cost", "" if job["usd"] is None else format_usd(job["usd"])),
        ("Wasted", f"{bound}{format_usd(job['wasted_usd'])}" if job["wasted_usd"] else ""),
        ("Mean utilization", "" if job["mean_utilization"] is None else f"{job['mean_utilization']:.0f}%"),
        ("90th percentile", "" if job["p90_utilization"] is None else f"{job['p90_utilization']:.0f}%"),
        ("User", job["user"]),
        ("Role", job["role"] or ""),
    ]
    yield Facts([(label, text) for label, text in rows if text])
    yield from (Text(note, is_muted=True) for note in job["notes"])


def _time(text: str | None) -> str:
    return "" if text is None else f"{moment(text):%Y-%m-%d %H:%M} UTC"


def _over_time(hosts: Sequence[Mapping[str, Any]]) -> Iterator[Block]:
    times = [moment(at) for host in hosts for name, *_ in _SERIES for at, _ in host[name]]
    if not times:
        return
    first = min(times)
    for name, title, unit, caption in _SERIES:
        values = {host["host"]: _values(host, name, first.timestamp()) for host in hosts if host[name]}
        if values:
            yield LineChart(
                title,
                "percent" if unit == "percent" else "number",
                _lines(values, max(host["period_seconds"] for host in hosts)),
                top=100.0 if unit == "percent" else None,
                summary=f"Of {pluralize(len(values), 'host')}.",
                group="hosts",
                caption=f"{caption} Time since {first:%Y-%m-%d %H:%M} UTC.",
            )


def _values(host: Mapping[str, Any], name: str, first: float) -> _Values:
    """What a host published, in percent of all its GPUs, or in busy cores."""
    scale = 1 / 100 if name == "cpu" else 1 / (host["gpus"] or 1)
    return {moment(at).timestamp() - first: value * scale for at, value in host[name]}


def _lines(hosts: Mapping[str, _Values], period: float) -> list[Line]:
    """A line for each host, with a gap where values are missing; one for all of them if there are many."""
    seconds = _even_seconds(hosts, period)
    columns = {host: [values.get(second) for second in seconds] for host, values in hosts.items()}
    if len(hosts) <= _MOST_LINES:
        return [Line(host, seconds, values) for host, values in columns.items()]
    known = [[value for value in row if value is not None] for row in zip(*columns.values(), strict=True)]
    return [
        Line(
            f"mean of {len(hosts)} hosts",
            seconds,
            [sum(row) / len(row) if row else None for row in known],
            [min(row, default=None) for row in known],
            [max(row, default=None) for row in known],
        )
    ]


def _even_seconds(hosts: Mapping[str, _Values], period: float) -> list[float]:
    """All times of values, and of those that are missing between two of them."""
    found = sorted({second for values in hosts.values() for second in values})
    every: list[float] = found[:1]
    for second in found[1:]:
        while second - every[-1] > 1.5 * period:
            every.append(every[-1] + period)
        every.append(second)
    return every


def _log(job: Mapping[str, Any]) -> Iterator[Block]:
    log = job["log"]
    if log is None:
        yield Text(job["log_problem"] or "There is no log.")
        return
    if not log["explanations"]:
        yield Text(
            "It failed, and its log has no known error." if log["failed"] else "It has no known error."
        )
    for found in log["explanations"]:
        line = (found.get("location") or {}).get("line")
        before = "" if line is None else f"line {line}: "
        text = " ".join(part for part in (found["cause"], found.get("here")) if part)
        yield Callout("bad" if found["severity"] == "error" else "warning", found["code"], f"{before}{text}")
        yield Text(found["remedy"])


def _code(code: Mapping[str, Any]) -> Iterator[Block]:
    if code["findings"] is None:
        yield Text(code["problem"] or "It was not checked.")
        return
    counted = pluralize(len(code["findings"]), "finding") if code["findings"] else "no findings"
    yield Text(f"{code['location']}: {pluralize(code['files'], 'file')}, {counted}")
    if code["findings"]:
        yield Table(
            ("Where", "Code", "Severity", "Finding", "What to do"),
            [
                (
                    _place(finding.get("location")),
                    finding["code"],
                    finding["severity"],
                    finding["message"],
                    finding.get("remedy") or "-",
                )
                for finding in code["findings"]
            ],
        )


def _place(location: Mapping[str, Any] | None) -> str:
    return "-" if not location else f"{location.get('file', '')}:{location.get('line', '')}".rstrip(":")
