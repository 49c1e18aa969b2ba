"""The JSON document and the CSV table of `gpuproof audit`."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from gpuproof.account.audit.judge import Judgement
from gpuproof.account.audit.row import Audit, AuditRow
from gpuproof.account.audit.summary import AuditSum, sum_of
from gpuproof.account.audit.workload import Workload
from gpuproof.account.cleanup.resource import Kind, Unread
from gpuproof.timestamps import iso_time

VERSION = 1
USD_PER_METRIC = 0.01 / 1000
"""What CloudWatch bills for each metric that GetMetricData returns.

Source: https://aws.amazon.com/cloudwatch/pricing/
"""


def to_document(audit: Audit, sentence: str, by: str | None, groups: Sequence[AuditSum]) -> dict[str, Any]:
    """The document; times are in ISO 8601, unknown values null.

    Args:
        sentence: what sums it up.
        by: the grouping; None for none.
    """
    return {
        "version": VERSION,
        "kind": "audit",
        "since": iso_time(audit.since),
        "until": iso_time(audit.taken),
        "regions": list(audit.regions),
        "summary": sentence,
        "total": sum_of("total", audit.rows).document(),
        "by": by,
        "groups": [group.document() for group in groups],
        "rows": [row_document(row) for row in audit.rows],
        "problems": [problem_document(failure) for failure in audit.unread],
        "cloudwatch": {"metrics": audit.metrics, "usd": round(audit.metrics * USD_PER_METRIC, 4)},
    }


def row_document(row: AuditRow) -> dict[str, Any]:
    """One thing that was billed; utilization is in percent of all its GPUs."""
    workload, found = row.workload, row.judgement
    return {
        "kind": str(workload.kind),
        "region": workload.region,
        "name": workload.name,
        "variant": workload.variant or None,
        "arn": workload.arn or None,
        "status": workload.status,
        "running": workload.is_running,
        "instance_type": workload.instance_type,
        "instance_count": workload.instance_count,
        "gpus": workload.gpus,
        "gpu": workload.gpu_name,
        "spot": workload.is_spot,
        "created": iso_time(workload.created),
        "started": iso_time(workload.start),
        "ended": iso_time(workload.end),
        "billed_seconds": _rounded(workload.billed_seconds),
        "instance_hours": _rounded(workload.hours),
        "usd": _rounded(workload.usd),
        "is_estimate": workload.is_estimate,
        "user": workload.user,
        "role": workload.role or None,
        "tags": None if workload.tags is None else dict(workload.tags),
        "verdict": found.outcome,
        "reason": found.reason,
        "remedy": found.remedy,
        "mean_utilization": _rounded(found.mean),
        "p90_utilization": _rounded(found.p90),
        "cpu_cores": _rounded(found.cpu_cores),
        "gpus_working_at_least": found.working,
        "gpus_idle_at_most": found.idle,
        "is_certain": found.is_certain,
        "wasted_usd": _rounded(row.wasted_usd),
        "resolution_seconds": row.hosts[0].period if row.hosts else None,
        "hosts": [
            {
                "host": host.host,
                "gpus": host.gpus,
                "values": len(host.gpu.values),
                "expected_values": host.expected,
                "mean": _rounded(host.mean),
                "p90": _rounded(host.p90),
                "peak": _rounded(host.peak),
                "memory_peak": _rounded(host.memory_peak),
                "cpu_cores": _rounded(host.cpu_cores),
            }
            for host in row.hosts
        ],
        "notes": list(workload.notes),
    }


def problem_document(failure: Unread) -> dict[str, Any]:
    """A part that could not be read."""
    return {
        "region": failure.region,
        "service": failure.service,
        "operation": failure.operation or None,
        "code": failure.code or None,
        "permission": failure.permission if failure.denied else None,
        "not_read": failure.what,
        "message": failure.message,
    }


def to_csv(rows: Sequence[AuditRow]) -> str:
    """A line for each row, with the columns of the JSON document, but for those with several values; tags are `key=value;…`."""
    text = io.StringIO()
    empty = AuditRow(Workload(Kind.TRAINING, "", ""), (), Judgement("", ""))
    writer = csv.DictWriter(text, list(_flat(row_document(empty))), lineterminator="\n")
    writer.writeheader()
    writer.writerows(_flat(row_document(row)) for row in rows)
    return text.getvalue()


def groups_csv(groups: Sequence[AuditSum]) -> str:
    """A line for each group, with a column for each verdict."""
    verdicts = sorted({verdict for group in groups for verdict in group.outcomes})
    text = io.StringIO()
    names = [name for name in sum_of("", ()).document() if name != "verdicts"]
    writer = csv.DictWriter(text, [*names, *verdicts], lineterminator="\n")
    writer.writeheader()
    for group in groups:
        document = group.document()
        del document["verdicts"]
        writer.writerow({**document, **{verdict: group.outcomes.get(verdict, 0) for verdict in verdicts}})
    return text.getvalue()


def _flat(document: Mapping[str, Any]) -> dict[str, Any]:
    tags = document["tags"] or {}
    kept = {name: value for name, value in document.items() if name != "hosts"}
    return {
        **kept,
        "tags": ";".join(f"{key}={value}" for key, value in sorted(tags.items())),
        "notes": "; ".join(document["notes"]),
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
