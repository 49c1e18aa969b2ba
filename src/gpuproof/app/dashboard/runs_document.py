"""The list of runs as JSON, with texts that the browser shows as they are."""

from __future__ import annotations

import time
from typing import Any

from gpuproof.agent.state import COMPLETED, FAILED
from gpuproof.agent.verdict import NO_GPU_EXPECTED, USED
from gpuproof.app.run_list import RunList
from gpuproof.backends.record import RunRecord
from gpuproof.report import Tone
from gpuproof.timestamps import iso_time
from gpuproof.util.humanize import format_clock

VERSION = 1


def runs_document(found: RunList, now: float | None = None) -> dict[str, Any]:
    """The runs and what could not be listed.

    Args:
        now: seconds since the epoch.
    """
    moment = time.time() if now is None else now
    problems = [
        *found.notes,
        *(
            f"Runs {' and '.join(locations)} are not listed: {error.message}"
            + (f" {error.remedy}" if error.remedy else "")
            for locations, error in found.failures
        ),
    ]
    return {
        "version": VERSION,
        "runs": [_row(record, moment) for record in found.records],
        "older": found.older,
        "backends": [backend.name for backend in found.backends],
        "problems": problems,
    }


def _row(record: RunRecord, now: float) -> dict[str, Any]:
    count = f"{record.instance_count} x " if record.instance_count > 1 else ""
    return {
        "id": record.id,
        "backend": record.backend,
        "job": record.job_name,
        "kind": record.kind,
        "status": record.status,
        "status_text": _status_text(record),
        "status_tone": _status_tone(record),
        "has_ended": record.has_ended,
        "verdict": record.verdict_text,
        "verdict_tone": _verdict_tone(record),
        "created": iso_time(record.created),
        "took": format_clock(record.seconds(now)),
        "instance": f"{count}{record.instance_type}" if record.instance_type else None,
        "cost": record.cost_text,
    }


def _status_text(record: RunRecord) -> str:
    is_known = record.has_ended or record.secondary_status is None
    return record.status_text if is_known else f"{record.status} ({record.secondary_status})"


def _status_tone(record: RunRecord) -> Tone:
    if record.status == FAILED:
        return "bad"
    return "good" if record.status == COMPLETED else "neutral"


def _verdict_tone(record: RunRecord) -> Tone:
    if record.verdict_text is None:
        return "neutral"
    if record.gpu_requirement_met is False:
        return "bad"
    return "good" if record.verdict_text in (USED, NO_GPU_EXPECTED) else "warning"
