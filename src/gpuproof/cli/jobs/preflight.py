"""What `gpuproof check` says about a job before `gpuproof run` starts it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuproof.errors import GPUproofError
from gpuproof.findings import Severity
from gpuproof.util.humanize import pluralize

if TYPE_CHECKING:
    from gpuproof.check.rule import Hit
    from gpuproof.jobs.spec import Job
    from gpuproof.terminal.console import Console


class ChecksFailed(GPUproofError):
    """The job has mistakes that would waste the run."""


def check_before_running(job: Job, console: Console, region: str | None = None) -> None:
    """Say each error, with what to do, and each warning in a line, and refuse a job with errors.

    Args:
        region: where it will run, for prices.

    Raises:
        ChecksFailed: there are errors.
    """
    from gpuproof.check.preflight import check_job

    hits = [hit for hit in check_job(job, region) if hit.finding.severity is not Severity.NOTE]
    for hit in hits:
        console.label(hit.finding.severity, _told(hit))
    errors = [hit for hit in hits if hit.finding.severity is Severity.ERROR]
    if errors:
        raise ChecksFailed(
            f"'{job.name}' was not started: gpuproof check found {pluralize(len(errors), 'error')}.",
            remedy=f"gpuproof rule {errors[0].code} tells more; --no-check runs it all the same.",
        )


def _told(hit: Hit) -> str:
    """A finding as a line: place, code, message. An error stops the job, so its remedy follows."""
    found = hit.finding
    line = f"{found.location}: {hit.code} {found.message}"
    return f"{line}\n{found.remedy}" if found.severity is Severity.ERROR and found.remedy else line
