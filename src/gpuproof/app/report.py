"""Use case `gpuproof report`: one run, a watched program, or a saved audit as a page."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from gpuproof.agent.paths import RunPaths
from gpuproof.agent.state import FAILED
from gpuproof.agent.verdict import Verdict
from gpuproof.app.live_view.log_tail import LogTail
from gpuproof.app.report_alternatives import alternatives
from gpuproof.app.verdict import JobVerdict, read_verdict
from gpuproof.backends.advice.lost_cost import with_lost_cost
from gpuproof.backends.advice.report import advise
from gpuproof.backends.outcome import FLAG, outcome_text
from gpuproof.backends.record import RunRecord
from gpuproof.backends.registry import find_run
from gpuproof.catalogue import Catalogue
from gpuproof.errors import ExitCode, GPUproofError, UsageError
from gpuproof.planning.history.planned_runs import PlannedRuns
from gpuproof.planning.history.store import HistoryStore
from gpuproof.report import Page, Tone
from gpuproof.report.log_epochs import EpochFinder, epoch_times
from gpuproof.report.run_cost import Alternative
from gpuproof.report.run_report import RunData, run_page
from gpuproof.report.saved_audit import saved_audit_page
from gpuproof.util.humanize import format_duration, format_usd, host_list, pluralize
from gpuproof.util.redaction import hide_secrets
from gpuproof.version import __version__
from gpuproof.watch.group.location import S3_SCHEME

if TYPE_CHECKING:
    from gpuproof.backends.base import Run
    from gpuproof.watch.report import WatchReport

_MOST_LINES = 200
_MOST_EXPLANATIONS = 3
_VERDICT = "verdict.json"


@dataclass(frozen=True)
class ReportRequest:
    """What a report is about.

    Args:
        run: a run's id or another name of it, the file or folder of reports of `gpuproof watch`, or the file of an audit as JSON; the
            newest run if None.
        on: search only this backend; `region` only this region.
    """

    run: str | None = None
    on: str | None = None
    region: str | None = None


@dataclass(frozen=True)
class RunReport:
    """A page, and what it is about.

    Args:
        name: for its file.
    """

    name: str
    page: Page = field(repr=False)


def report(request: ReportRequest) -> RunReport:
    """Make the report on a run, a watched program or a saved audit.

    Raises:
        UsageError: there is no such run or file, or nothing is known about the run yet.
        GPUproofError: AWS refused.
    """
    path = request.run
    if path is not None and request.on is None and (path.startswith(S3_SCHEME) or Path(path).exists()):
        file = Path(path) / _VERDICT
        location = str(file) if not path.startswith(S3_SCHEME) and file.is_file() else path
        name = path.rstrip("/").rpartition("/")[2].removesuffix(".json") or "report"
        if (audit := saved_audit_page(Path(path), _written())) is not None:
            return RunReport(name, audit)
        return RunReport(name, run_page(_of_watch(read_verdict(location), name)))
    run = find_run(request.run, request.on, request.region)
    return RunReport(run.id, run_page(_of_run(run)))


def _of_run(run: Run) -> RunData:
    record = run.record
    verdict = run.verdict
    sink = _LogSink()
    with suppress(GPUproofError):  # a run without a log, or without permission to read it
        run.write_log(cast("BinaryIO", sink))
    if not record.has_ended and record.started is None and not sink.lines:
        raise UsageError(
            f"{run.id} has not started, so there is nothing to report yet: it is {record.secondary_status or record.status}.",
            remedy=f"gpuproof logs -f {run.cli_name}",
        )
    document = with_lost_cost(verdict, record) if verdict is not None else None
    if record.has_ended:
        PlannedRuns().ended(run)
    return RunData(
        name=run.id,
        subtitle=_subtitle(record),
        has_ended=record.has_ended,
        failure=record.reason or "It did not complete." if record.status == FAILED else None,
        verdict=document,
        ending=_ending(record, verdict),
        findings=_findings(run, record),
        facts=[*_facts(run, record)],
        cost=_cost_text(record),
        alternatives=_alternatives(record, verdict),
        plan=_planned(run.id),
        log=sink.lines,
        epochs=_log_epochs(run, record, sink),
        written=_written(),
    )


def _of_watch(found: JobVerdict, name: str) -> RunData:
    watched = found.report
    code = found.exit_code
    tone: Tone = "good" if code == ExitCode.OK else "warning" if code == ExitCode.UNDECIDED else "bad"
    missing: list[tuple[Tone, str, str]] = []
    if found.running:
        missing.append(
            ("warning", "no report", f"{host_list(found.running)}: began, and has not ended or was killed.")
        )
    if found.missing:
        missing.append(("warning", "no report", f"{host_list(found.missing)}: left nothing."))
    notes: list[tuple[Tone, str, str]] = [("neutral", "note", note) for note in watched.notes]
    instance = watched.instance
    region = instance.region if instance else None
    return RunData(
        name=" ".join(hide_secrets(watched.command)) if watched.command else name,
        subtitle=_watched_where(watched),
        failure=None
        if watched.exit_code in (None, 0)
        else f"The program ended with exit code {watched.exit_code}.",
        verdict=watched.verdict,
        ending=(tone, f"exit code {int(code)}", "of gpuproof verdict: " + _VERDICT_CODES[code]),
        findings=[*missing, *notes],
        facts=[*_watch_facts(watched)],
        cost=None if watched.cost_usd is None else format_usd(watched.cost_usd),
        alternatives=alternatives(
            Catalogue.load(),
            instance.type,
            1 if watched.host else watched.hosts,
            region=region,
            use="training",
            peak_memory=_peak(watched.verdict),
            seconds=watched.seconds,
            is_spot=instance.life_cycle == "spot",
        )
        if instance is not None and region is not None
        else (),
        written=_written(),
    )


_VERDICT_CODES = {
    ExitCode.OK: "the required GPUs did work.",
    ExitCode.GPU_UNUSED: "a required GPU did no work.",
    ExitCode.UNDECIDED: "unknown whether the required GPUs did work.",
}


class _LogSink:
    """Keeps the last lines of a log, and finds its epochs, whatever its length."""

    def __init__(self) -> None:
        self._tail = LogTail(_MOST_LINES)
        self.epochs = EpochFinder()

    def write(self, content: bytes) -> int:
        """Take a piece of the log."""
        self._tail.add(content)
        self.epochs.add(content)
        return len(content)

    @property
    def lines(self) -> tuple[str, ...]:
        """The last lines."""
        return self._tail.lines()


def _log_epochs(run: Run, record: RunRecord, sink: _LogSink) -> list[tuple[float, str]]:
    """Epochs by the log of a run on this machine, whose agent notes when the log had which length."""
    if run.is_remote or record.started is None or record.instance_count > 1:
        return []
    from gpuproof.backends.local.host_logs import read_times

    notes = [*read_times(RunPaths(Path(run.address)).log_times())]
    return epoch_times(sink.epochs.positions, notes, record.started)


def _ending(record: RunRecord, verdict: Mapping[str, Any] | None) -> tuple[Tone, str, str] | None:
    if not record.has_ended:
        return None
    code = record.outcome
    tone: Tone = "good" if code == ExitCode.OK else "warning" if code == ExitCode.UNDECIDED else "bad"
    text = outcome_text(record, verdict, FLAG)
    if text is None:
        text = "The run completed." if code == ExitCode.OK else f"The run is {record.status_text}."
    return tone, f"exit code {int(code)}", text


def _findings(run: Run, record: RunRecord) -> list[tuple[Tone, str, str]]:
    found: list[tuple[Tone, str, str]] = []
    for explanation in run.explanations()[:_MOST_EXPLANATIONS] if record.has_ended else ():
        parts = (explanation.text, explanation.cause, explanation.here, explanation.remedy)
        found.append(("bad", explanation.code, "\n".join(part for part in parts if part)))
    found.extend(("neutral", label, text) for label, text in advise(run, record).lines())
    found.extend(("neutral", "note", note) for note in record.notes)
    return found


def _facts(run: Run, record: RunRecord) -> list[tuple[str, str]]:
    took = record.seconds(time.time())
    document = record.document
    facts = [
        ("run", f"{record.id} ({record.kind}, {record.backend})"),
        (
            "status",
            record.status_text if record.has_ended else f"{record.status} ({record.secondary_status})",
        ),
        ("created", _moment(record.created)),
        ("started", _moment(record.started)),
        ("ended", _moment(record.ended)),
        ("script ran for" if record.has_ended else "script has run for", took and format_duration(took)),
        ("command", " ".join(hide_secrets(document.get("command") or ()))),
        ("instance", _instances(record)),
        ("region", document.get("region")),
        ("image", document.get("image")),
        ("driver", (run.verdict or {}).get("driver_version")),
        (run.address_label, run.address),
        *(("metric " + name, f"{value:.6g}") for name, value in (document.get("metrics") or {}).items()),
        *(("artifact", artifact.location) for artifact in run.artifacts()),
    ]
    return [(label, str(text)) for label, text in facts if text]


def _watch_facts(watched: WatchReport) -> list[tuple[str, str]]:
    began = watched.started or None
    facts = [
        ("host", watched.host),
        ("job", watched.group and f"{watched.group}, {pluralize(watched.hosts, 'host')}"),
        ("process", watched.pid),
        ("started", _moment(began)),
        ("watched for", format_duration(watched.seconds)),
        ("instance", _watched_where(watched)),
        ("driver", watched.verdict.get("driver_version")),
        ("exit code of the program", None if watched.exit_code is None else str(watched.exit_code)),
        ("killed by signal", watched.signal),
    ]
    return [(label, str(text)) for label, text in facts if text]


def _watched_where(watched: WatchReport) -> str:
    instance = watched.instance
    if instance is None:
        return watched.host
    where = f"{instance.type} in {instance.region}" if instance.region else instance.type
    spot = " (spot)" if instance.life_cycle == "spot" else ""
    count = 1 if watched.host else watched.hosts
    return (f"{count} x " if count > 1 else "") + where + spot


def _subtitle(record: RunRecord) -> str:
    where = _instances(record) or "this machine"
    region = record.document.get("region")
    return f"{record.job_name} on {where}" + (f" in {region}" if region else "")


def _instances(record: RunRecord) -> str | None:
    if record.instance_type is None:
        return None
    count = f"{record.instance_count} x " if record.instance_count > 1 else ""
    return f"{count}{record.instance_type}{' (spot)' if record.document.get('spot') else ''}"


def _cost_text(record: RunRecord) -> str | None:
    if record.billed_seconds is None:
        return None
    text = f"{format_duration(record.billed_seconds)} of {_instances(record)}"
    if record.cost is None:
        return f"{text}, price unknown"
    hourly = record.cost / record.billed_seconds * 3600 if record.billed_seconds else None
    rate = f", {format_usd(hourly)} an hour" if hourly else ""
    saving = f"; spot saved {100 * record.spot_saving:.0f}%" if record.spot_saving else ""
    return f"{record.cost_text}: {text}{rate}{saving}"


def _alternatives(record: RunRecord, verdict: Mapping[str, Any] | None) -> tuple[Alternative, ...]:
    region = record.document.get("region")
    if record.instance_type is None or region is None or record.kind not in ("training", "processing"):
        return ()
    seconds = record.billed_seconds or record.seconds(time.time())
    return alternatives(
        Catalogue.load(),
        record.instance_type,
        record.instance_count,
        region=region,
        use=record.kind,
        peak_memory=_peak(verdict),
        seconds=seconds,
        is_spot=bool(record.document.get("spot")),
    )


def _peak(verdict: Mapping[str, Any] | None) -> int:
    """The memory in use on the fullest GPU at its peak, in bytes; 0 if it is unknown."""
    try:
        gpus = Verdict.from_json(verdict or {}).gpus
    except ValueError:
        return 0
    return max((gpu.peak_memory or 0 for gpu in gpus), default=0)


def _planned(run: str) -> Mapping[str, Any] | None:
    """The comparison of a run with its plan, if its script was planned on this machine."""
    store = HistoryStore()
    if not store.path.exists():
        return None
    return next((entry for entry in store.read().comparisons if entry["run"] == run), None)


def _moment(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _written() -> str:
    return f"Written by GPUproof {__version__} at {_moment(time.time())}."
