"""Explains why a run failed from its logs, the reason that AWS reports and its instance type."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from gpuproof.agent.state import FAILED
from gpuproof.backends.aws import Aws
from gpuproof.backends.record import RunRecord
from gpuproof.backends.remote.logs import Tail
from gpuproof.backends.remote.s3_layout import RunLayout
from gpuproof.catalogue import Catalogue, JobKind
from gpuproof.errors import GPUproofError
from gpuproof.explain.context import Context, JobFacts
from gpuproof.explain.job_facts import job_facts
from gpuproof.explain.report import Report
from gpuproof.explain.sources import explain_job


def read_job(aws: Aws, bucket: str, run_id: str) -> JobFacts | None:
    """What was submitted, from the run's `job.json` on S3; None if it cannot be read."""
    try:
        with aws.open_object(bucket, RunLayout(run_id).job) as file:
            return job_facts(json.load(file))
    except (GPUproofError, ValueError):
        return None


def explain_run_end(
    record: RunRecord,
    tails: Mapping[str, Tail],
    catalogue: Catalogue,
    region: str,
    instance_type: str | None = None,
    *,
    job_kind: JobKind | None = None,
    gpu_expected: bool | None = None,
    job: JobFacts | None = None,
    other_logs: Mapping[str, Sequence[str]] | None = None,
) -> Report:
    """Explain the ends of a run's logs.

    Args:
        tails: the last lines of each log by host.
        instance_type: assumed instance type; the run's own if None.
        job_kind: the kind of a job on SageMaker.
        gpu_expected: whether the job should use a GPU; None if unknown.
        job: what was submitted; None if unknown.
        other_logs: lines of other logs by name.
    """
    context = Context(
        catalogue=catalogue,
        region=region,
        region_is_explicit=True,
        job_kind=job_kind,
        gpu_expected=gpu_expected,
        failed=record.status == FAILED,
        hosts=len(tails) or None,
        job=job,
    )
    if (instance := instance_type or record.instance_type) is not None:
        context = context.on_instance(instance)
    logs: dict[str, Sequence[str]] = {
        host if tail.whole else f"{host} (its last {len(tail.lines):,} lines)": tail.lines
        for host, tail in tails.items()
    }
    logs.update(other_logs or {})
    # AWS quotes the log's own traceback; the agent's reason is the same without a wrapper around it.
    reason = record.document.get("reason") or record.failure_reason
    return explain_job(logs, reason, context)
