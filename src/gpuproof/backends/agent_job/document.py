"""The document through which a backend passes a job to the agent: `job.json`."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from gpuproof.agent.job import VERSION, AgentJob


def job_document(job: AgentJob) -> dict[str, Any]:
    """The content of `job.json`."""
    return {"version": VERSION, **asdict(job)}


def shown_job_document(job: AgentJob) -> dict[str, Any]:
    """The same for display, without the secret of the hosts' agents."""
    return job_document(replace(job, cluster_key="" if not job.cluster_key else "hidden"))
