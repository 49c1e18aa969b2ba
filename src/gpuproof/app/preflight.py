"""Checks a job before it runs, as `gpuproof check` does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpuproof.errors import ExitCode, GPUproofError
from gpuproof.findings import Finding, Severity
from gpuproof.settings import aws_region
from gpuproof.util.humanize import format_usd, pluralize

if TYPE_CHECKING:
    from gpuproof.backends.progress import SubmitProgress
    from gpuproof.jobs.script_job import AnyJob
    from gpuproof.linter.rule import Hit


class ChecksFailed(GPUproofError):
    """The job has errors that would waste the run.

    Args:
        findings: the errors that `gpuproof check` found: `code`, `message`, `remedy`, `location`.
    """

    def __init__(self, message: str, remedy: str, findings: Sequence[Finding]) -> None:
        super().__init__(message, remedy)
        self.findings = tuple(findings)


class CostLimitExceeded(GPUproofError):
    """A job may cost more than the user allows, or how much is unknown.

    Args:
        max_usd: the highest possible cost; None if unknown.
        limit: the highest cost that the user allows.
    """

    def __init__(self, message: str, remedy: str, max_usd: float | None, limit: float) -> None:
        super().__init__(message, remedy)
        self.max_usd = max_usd
        self.limit = limit
        self.exit_code = ExitCode.UNDECIDED if max_usd is None else ExitCode.FAILED


def check_cost(name: str, max_usd: float | None, limit: float | None, remedy: str) -> None:
    """Reject a job that may cost more than the user allows.

    Args:
        max_usd: the highest possible cost; None if unknown.
        limit: the highest cost that the user allows; None for any.
        remedy: how the user limits the cost of such a job.

    Raises:
        CostLimitExceeded: it may cost more, or its cost is unknown.
    """
    if limit is None or (max_usd is not None and max_usd <= limit):
        return
    reason = (
        "its highest possible cost is unknown"
        if max_usd is None
        else f"it may cost up to {format_usd(max_usd)}"
    )
    message = f"'{name}' was not started: {reason}, and the limit is {format_usd(limit)}."
    raise CostLimitExceeded(message, remedy, max_usd, limit)


def check_before_running(
    job: AnyJob,
    reporter: SubmitProgress,
    *,
    is_remote: bool,
    python: str | None = None,
    skip_with: str = "check=False",
) -> None:
    """Report each error with its remedy and each warning on one line, and reject a job with errors.

    Args:
        is_remote: whether the job runs on a machine that is deleted when it ends.
        python: the interpreter of a job on this machine; the current one if None.
        skip_with: how the user skips the checks.

    Raises:
        ChecksFailed: there are errors.
    """
    from gpuproof.linter.internal_errors import ErrorLog, merged
    from gpuproof.linter.preflight import check_job

    log = ErrorLog()
    tensorflow = _installed_tensorflow(job, python) if not is_remote else None
    region = job.resources.region or aws_region()
    found = check_job(job, region, is_remote=is_remote, tensorflow=tensorflow, log=log)
    hits = [hit for hit in found if hit.finding.severity is not Severity.NOTE]
    for error in merged(log.errors):
        text = f"{error.file}: {error.message}. This is a bug of GPUproof, which does not stop the job."
        reporter.report("warning", text)
    for hit in hits:
        reporter.report(hit.finding.severity, _finding_text(hit))
    errors = [hit for hit in hits if hit.finding.severity is Severity.ERROR]
    if errors:
        raise ChecksFailed(
            f"'{job.name}' was not started: gpuproof check found {pluralize(len(errors), 'error')}.",
            f"gpuproof rule {errors[0].code} explains it; {skip_with} runs the job anyway.",
            [hit.finding for hit in errors],
        )


def _installed_tensorflow(job: AnyJob, python: str | None) -> str | None:
    """The version that the script will import, where a rule depends on it: only jobs of several hosts have such a rule."""
    if job.instance_count < 2:
        return None
    from gpuproof.backends.interpreter import find_interpreter
    from gpuproof.util.installed_frameworks import installed_frameworks

    return installed_frameworks(find_interpreter(python)).get("tensorflow")


def _finding_text(hit: Hit) -> str:
    """A finding as a line with location, code and message; an error is followed by its remedy."""
    found = hit.finding
    place = f"{found.location}: " if found.location else ""
    line = f"{place}{hit.code} {found.message}"
    return f"{line}\n{found.remedy}" if found.severity is Severity.ERROR and found.remedy else line
