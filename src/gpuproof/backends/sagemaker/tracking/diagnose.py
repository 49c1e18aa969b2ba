"""What explains the end of a job: its logs and AWS's reason, in the light of what it ran on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gpuproof.backends.aws import SageMakerKind
from gpuproof.backends.record import RunRecord
from gpuproof.backends.sagemaker.tracking.logs import Tail
from gpuproof.backends.sagemaker.tracking.records import TAG_RUN
from gpuproof.catalogue import Catalogue
from gpuproof.explain.context import Context
from gpuproof.explain.report import Report
from gpuproof.explain.sources import explain_job


def explain(
    kind: SageMakerKind,
    record: RunRecord,
    tails: Mapping[str, Tail],
    catalogue: Catalogue,
    region: str,
    instance_type: str | None = None,
) -> Report:
    """What the ends of a job's logs say.

    Args:
        tails: by host.
        instance_type: what to take it to have run on; what it did if None.
    """
    tags: Mapping[str, str] = record.document["tags"]
    context = Context(
        catalogue=catalogue,
        region=region,
        region_asked=True,
        use=kind,
        gpu_expected=bool(tags.get("gpuproof:expects")) if TAG_RUN in tags else None,
    )
    if (instance := instance_type or record.instance_type) is not None:
        context = context.on_instance(instance)
    logs = {
        host if tail.whole else f"{host} (its last {len(tail.lines):,} lines)": tail.lines
        for host, tail in tails.items()
    }
    # What AWS quotes is the log's own traceback; the agent's line says the same without a wrapper around it.
    said = record.document.get("reason") or record.failure_reason
    return explain_job(logs, replace(record, failure_reason=said), context)
