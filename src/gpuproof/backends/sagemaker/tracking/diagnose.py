"""Explains why a job failed from its logs, the reason that AWS reports and its instance type."""

from __future__ import annotations

from collections.abc import Mapping

from gpuproof.agent.state import FAILED
from gpuproof.backends.aws import SageMakerKind
from gpuproof.backends.record import RunRecord
from gpuproof.backends.remote.logs import Tail
from gpuproof.backends.sagemaker.tracking.records import TAG_RUN
from gpuproof.catalogue import Catalogue
from gpuproof.explain.context import Context
from gpuproof.explain.report import Report
from gpuproof.explain.sources import explain_job


def explain_run_end(
    kind: SageMakerKind,
    record: RunRecord,
    tails: Mapping[str, Tail],
    catalogue: Catalogue,
    region: str,
    instance_type: str | None = None,
) -> Report:
    """Explain the ends of a job's logs.

    Args:
        tails: the last lines of each log by host.
        instance_type: assumed instance type; the job's own if None.
    """
    tags: Mapping[str, str] = record.document["tags"]
    context = Context(
        catalogue=catalogue,
        region=region,
        region_is_explicit=True,
        job_kind=kind,
        gpu_expected=bool(tags.get("gpuproof:expects")) if TAG_RUN in tags else None,
        failed=record.status == FAILED,
    )
    if (instance := instance_type or record.instance_type) is not None:
        context = context.on_instance(instance)
    logs = {
        host if tail.whole else f"{host} (its last {len(tail.lines):,} lines)": tail.lines
        for host, tail in tails.items()
    }
    # AWS quotes the log's own traceback; the agent's reason is the same without a wrapper around it.
    reason = record.document.get("reason") or record.failure_reason
    return explain_job(logs, reason, context)
