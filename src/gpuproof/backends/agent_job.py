"""The document through which a backend passes a job to the agent: `job.json`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from gpuproof.agent.job import VERSION, AgentJob


def job_document(job: AgentJob) -> dict[str, Any]:
    """The content of `job.json`."""
    return {"version": VERSION, **asdict(job)}
