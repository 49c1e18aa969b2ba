"""One job or endpoint in detail, also if GPUproof did not start it: `gpuproof audit JOB`, and `gpuproof.audit_job` in Python.

Everything only reads, and what cannot be read is named: the rest is still shown.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuproof.account.audit.detail.find import Found, Target, find, log_group
from gpuproof.account.audit.detail.smaller import Smaller, smaller_instance
from gpuproof.account.audit.detail.source import (
    SourceLocation,
    SourceUnavailable,
    fetch_source,
    source_of,
)
from gpuproof.account.audit.document import problem_document, row_document
from gpuproof.account.audit.row import AuditRow
from gpuproof.account.audit.usage import HostUsage, Samples
from gpuproof.account.cleanup.inventory.scan import Scan
from gpuproof.account.cleanup.resource import Kind, Unread
from gpuproof.app.account.audit import enabled_regions, problem_texts
from gpuproof.app.check import CheckRequest, check_files
from gpuproof.backends.display import Printed
from gpuproof.backends.remote.logs import read_tails
from gpuproof.catalogue import Catalogue
from gpuproof.catalogue.names import reject_unknown_region
from gpuproof.catalogue.prices import DERIVED
from gpuproof.errors import ExitCode, GPUproofError, UsageError
from gpuproof.explain.context import Context
from gpuproof.explain.render import format_explanation, format_json
from gpuproof.explain.report import Report
from gpuproof.explain.sources import explain_job
from gpuproof.findings import Finding
from gpuproof.terminal.style import Style, wrap
from gpuproof.terminal.table import Block, Table
from gpuproof.terminal.verdict import sparkline
from gpuproof.timestamps import iso_time
from gpuproof.util.humanize import format_duration, format_usd, pluralize

if TYPE_CHECKING:
    from gpuproof.linter.engine import CheckReport

VERSION = 1
_COLUMNS = 40
_WIDTH = 110
_FAILED = "Failed"
_MOST_FINDINGS = 10


@dataclass(frozen=True)
class CodeCheck:
    """What `check` found in the code of a job.

    Args:
        location: where the code is; None if the description names none.
        findings: with paths below that place; None if it was not checked.
        files: how many files were checked.
        problem: why it was not checked.
    """

    location: SourceLocation | None
    findings: tuple[Finding, ...] | None = None
    files: int = 0
    problem: str = ""


@dataclass(frozen=True)
class JobDetail:
    """One job, or one variant of an endpoint.

    Args:
        row: what it cost, its utilization and the verdict.
        log: what `explain` found in the ends of its logs; None if there is no log, and `log_problem` says why.
        smaller: a cheaper instance type that would have done; None if none is certain enough.
    """

    row: AuditRow
    log: Report | None
    log_problem: str
    code: CodeCheck
    smaller: Smaller | None


@dataclass(frozen=True, repr=False)
class AuditJobResult(Printed):
    """Jobs and endpoints of one name; `print(result)` shows them as the command does."""

    name: str
    jobs: tuple[JobDetail, ...]
    unread: tuple[Unread, ...]

    @property
    def title(self) -> str:
        """Each with its verdict."""
        return "; ".join(
            f"{job.row.workload.kind} {job.row.workload.label}: {job.row.judgement.outcome}"
            for job in self.jobs
        )

    @property
    def problems(self) -> tuple[str, ...]:
        """What could not be read, and why."""
        return tuple(problem_texts(self.unread))

    @property
    def exit_code(self) -> ExitCode:
        """0; 5 if AWS refused a part, 3 if a part could not be reached."""
        if not self.unread:
            return ExitCode.OK
        return ExitCode.AWS_REFUSED if any(failure.code for failure in self.unread) else ExitCode.UNDECIDED

    def to_json(self) -> dict[str, Any]:
        """The JSON form, as of `gpuproof audit JOB --format json`."""
        return {
            "version": VERSION,
            "kind": "audit-job",
            "name": self.name,
            "jobs": [_document(job) for job in self.jobs],
            "problems": [problem_document(failure) for failure in self.unread],
        }

    def blocks(self) -> Iterable[Block]:
        """Everything, and what could not be read."""
        return (*self.shown(), *self.problems)

    def shown(self) -> Iterator[Block]:
        """Each job: the verdict, utilization over time, the log, the code, and the smaller instance."""
        for number, job in enumerate(self.jobs):
            if number:
                yield ""
            yield from _blocks(job)


def audit_job(name: str, *, regions: str | Sequence[str] = (), profile: str | None = None) -> AuditJobResult:
    """Read what the GPUs of one job or endpoint did, what its log and its code say, as `gpuproof audit JOB` does. It only reads.

    Args:
        name: of a job or an endpoint, or its ARN.
        regions: where to look; all that are enabled for the account if empty.
        profile: the AWS profile; `AWS_PROFILE`, or the default profile, if not given.

    Raises:
        GPUproofError: there is no such job, it has no GPU, or there are no credentials.
    """
    catalogue, target = Catalogue.load(), Target.parse(name)
    names = (regions,) if isinstance(regions, str) else tuple(regions)
    if target.region is not None:
        names = (target.region,)
    for region in names:
        reject_unknown_region(region, catalogue)
    with Scan(catalogue, profile=profile) as scan:
        found, read = find(scan, names or enabled_regions(scan), target.name, time.time())
        jobs = tuple(_detail(job, catalogue) for job in found)
    unread = tuple(failure for region in read for failure in region.unread)
    if not jobs:
        problems = "; ".join(problem_texts(unread))
        raise UsageError(f"{target.name} was not found, and not everything could be read: {problems}")
    return AuditJobResult(target.name, jobs, unread)


def _detail(found: Found, catalogue: Catalogue) -> JobDetail:
    log, problem = _explain_log(found, catalogue)
    smaller = smaller_instance(found.row, catalogue, found.host_memory)
    return JobDetail(found.row, log, problem, _check_code(found), smaller)


def _explain_log(found: Found, catalogue: Catalogue) -> tuple[Report | None, str]:
    """What the log of a job explains, or why it is not known."""
    workload = found.row.workload
    where = log_group(workload)
    if where is None:
        return None, "The log of an EC2 instance is not read."
    group, name = where
    tails = found.region.read("log", "logs", lambda: read_tails(found.region.aws, group, name))
    if tails is None:
        return None, "The log could not be read."
    reason = found.description.get("FailureReason")
    if not tails and not reason:
        return None, f"There is no log of it in {group}."
    context = Context(
        catalogue=catalogue,
        region=workload.region,
        region_is_explicit=True,
        gpu_expected=True,
        failed=workload.status == _FAILED,
        hosts=workload.instance_count or None,
    ).on_instance(workload.instance_type)
    return explain_job({host: tail.lines for host, tail in tails.items()}, reason, context), ""


def _check_code(found: Found) -> CodeCheck:
    """What `check` finds in the code of a job, as if it ran on the job's instance type."""
    workload = found.row.workload
    if workload.kind not in (Kind.TRAINING, Kind.PROCESSING):
        problem = (
            "The code on an EC2 instance is not read."
            if workload.kind is Kind.INSTANCE
            else "The code of a model is in the model's archive, which is not read."
        )
        return CodeCheck(None, problem=problem)
    location = source_of(workload.kind, found.description)
    if location is None:
        return CodeCheck(None, problem="Its description names no code in S3: it is in the image.")
    with tempfile.TemporaryDirectory(prefix="gpuproof-audit-") as temporary:
        folder = Path(temporary) / "code"
        folder.mkdir()
        try:
            files = found.region.read("code", "s3", lambda: fetch_source(found.region.aws, location, folder))
        except SourceUnavailable as unavailable:
            return CodeCheck(location, problem=str(unavailable))
        if files is None:
            return CodeCheck(location, problem="It could not be read.")
        try:
            report = check_files(
                CheckRequest(
                    (str(folder),),
                    instance_type=_known_type(workload.instance_type),
                    region=workload.region,
                )
            )
        except GPUproofError as error:
            return CodeCheck(location, problem=f"It was not checked: {error.message}")
        return CodeCheck(location, tuple(_findings(report, folder)), report.files)


def _known_type(name: str) -> str | None:
    return name if Catalogue.load().instance(name) is not None else None


def _findings(report: CheckReport, folder: Path) -> Iterator[Finding]:
    """The findings, with paths below the folder."""
    for hit in report.hits:
        found, location = hit.finding, hit.finding.location
        if location is None or location.file is None or not Path(location.file).is_relative_to(folder):
            yield found
        else:
            path = str(Path(location.file).relative_to(folder))
            yield replace(found, location=replace(location, file=path))


def _blocks(job: JobDetail) -> Iterator[Block]:
    workload, found = job.row.workload, job.row.judgement
    yield _headline(job.row)
    yield _labelled("verdict", f"{found.outcome}: {found.reason}")
    if found.remedy is not None:
        yield _labelled("fix", found.remedy)
    if job.row.hosts and any(host.gpu.values for host in job.row.hosts):
        yield ""
        yield _utilization_table(job.row)
        yield ""
    if job.smaller is not None:
        yield _labelled("smaller", job.smaller.text)
    yield from _log_blocks(job)
    yield from _code_blocks(job.code)
    for note in workload.notes:
        yield _labelled("note", note)


def _headline(row: AuditRow) -> str:
    """`training-job bert in us-east-1: Completed, 4 x A10G (ml.g5.12xlarge), 2 h, $12.30, of which $9.22 wasted`."""
    workload = row.workload
    count = f"{workload.instance_count} x " if workload.instance_count != 1 else ""
    gpus = f"{workload.gpus} x {workload.gpu_name}" if workload.gpus and workload.gpu_name else "GPUs"
    parts = [workload.status, f"{count}{workload.instance_type} ({gpus})"]
    if workload.active_seconds is not None:
        parts.append(format_duration(workload.active_seconds))
    if workload.usd is not None:
        parts.append((DERIVED if workload.is_estimate else "") + format_usd(workload.usd))
    if row.wasted_usd:
        parts.append(
            f"{'' if row.judgement.is_certain else 'up to '}{format_usd(row.wasted_usd)} of that wasted"
        )
    return f"{workload.kind} {workload.label} in {workload.region}: {', '.join(parts)}"


def _utilization_table(row: AuditRow) -> Table:
    hosts = [host for host in row.hosts if host.gpu.values]
    seconds = max(host.gpu.times[-1] + host.period - host.gpu.times[0] for host in hosts)
    headers = (
        "HOST",
        f"GPU OVER {format_duration(seconds).upper()}",
        "MEAN",
        "P90",
        "GPU MEMORY",
        "CPU CORES",
    )
    return Table(headers, tuple(_host_cells(host) for host in hosts), (2, 3, 4, 5), code=(1,))


def _host_cells(host: HostUsage) -> tuple[str, ...]:
    gpus = host.gpus or 1
    return (
        host.host,
        sparkline(_over_time(host, gpus), _COLUMNS),
        _percent(host.mean, gpus),
        _percent(host.p90, gpus),
        _percent(host.memory_peak, gpus),
        "-" if host.cpu_cores is None else f"{host.cpu_cores:.1f}",
    )


def _over_time(host: HostUsage, gpus: int) -> list[float | None]:
    """Utilization in percent of all GPUs, one value for each period; None where CloudWatch has none."""
    first = host.gpu.times[0]
    steps = int((host.gpu.times[-1] - first) // host.period) + 1
    values: list[float | None] = [None] * steps
    for moment, value in zip(host.gpu.times, host.gpu.values, strict=True):
        values[int((moment - first) // host.period)] = value / gpus
    return values


def _log_blocks(job: JobDetail) -> Iterator[str]:
    if job.log is None:
        yield _labelled("log", job.log_problem)
        return
    if not job.log.explanations:
        unknown = "It failed, and its log has no known error." if job.log.failed else "It has no known error."
        yield _labelled("log", unknown)
    for explanation in job.log.explanations:
        for label, text in format_explanation(explanation, _WIDTH, short=True):
            yield "\n".join(Style().labelled(label, text.splitlines()))


def _code_blocks(code: CodeCheck) -> Iterator[str]:
    if code.findings is None:
        where = "" if code.location is None else f"{code.location}: "
        yield _labelled("code", where + code.problem)
        return
    counted = pluralize(len(code.findings), "finding") if code.findings else "no findings"
    yield _labelled("code", f"{code.location}: {pluralize(code.files, 'file')}, {counted}")
    for finding in code.findings[:_MOST_FINDINGS]:
        place = finding.location
        line = "" if place is None else f"{place.file}:{place.line}: "
        yield _labelled("", f"{line}{finding.code} {finding.severity}: {finding.message}")
        if finding.remedy:
            yield _labelled("", f"  {finding.remedy}")
    if len(code.findings) > _MOST_FINDINGS:
        yield _labelled("", f"and {len(code.findings) - _MOST_FINDINGS} more (--format json has all)")


def _labelled(label: str, text: str) -> str:
    return "\n".join(Style().labelled(label, wrap(text, _WIDTH)))


def _document(job: JobDetail) -> dict[str, Any]:
    code, smaller = job.code, job.smaller
    return {
        **row_document(job.row),
        "utilization": [_series(host) for host in job.row.hosts],
        "log": None if job.log is None else json.loads(format_json(job.log, job.row.workload.name)),
        "log_problem": job.log_problem or None,
        "code": {
            "location": None if code.location is None else str(code.location),
            "program": None if code.location is None else code.location.program,
            "files": code.files,
            "findings": None if code.findings is None else [finding.to_json() for finding in code.findings],
            "problem": code.problem or None,
        },
        "smaller": None
        if smaller is None
        else {
            "instance_type": smaller.instance.name,
            "instance_count": smaller.count,
            "usd_less_per_hour": round(smaller.saving, 4),
            "gpus": smaller.gpus,
            "gpu_memory_used": smaller.memory,
            "is_estimate": smaller.is_estimate,
            "text": smaller.text,
        },
    }


def _series(host: HostUsage) -> dict[str, Any]:
    """All values of a host: percent, summed over the GPUs, or over the CPU cores."""

    def points(samples: Samples) -> list[list[Any]]:
        return [
            [iso_time(moment), round(value, 2)]
            for moment, value in zip(samples.times, samples.values, strict=True)
        ]

    return {
        "host": host.host,
        "gpus": host.gpus,
        "period_seconds": host.period,
        "gpu": points(host.gpu),
        "gpu_memory": points(host.memory),
        "cpu": points(host.cpu),
    }


def _percent(value: float | None, gpus: int) -> str:
    return "-" if value is None else f"{value / gpus:.0f}%"
