"""Why a script failed on this host: what its ranks have reported, or else its exit code and its last traceback."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from gpuproof.agent.failure import LIMIT, describe_exit, error_line, reason
from gpuproof.agent.job import AgentJob
from gpuproof.agent.ranks.host_failure import Cause, Failure, exception_cause, exit_cause

if TYPE_CHECKING:
    from gpuproof.agent.ranks.report import RankReport

_MPI_PEER_CODES = frozenset({14, 16, 17, 74, 75, 76, 77})
"""Exit codes by which Open MPI's default error handler ends a rank that has lost another one, or its daemon: `MPI_ERR_UNKNOWN`,
`MPI_ERR_OTHER`, `MPI_ERR_INTERN`, `MPI_ERR_PROC_ABORTED`, `MPI_ERR_PROC_FAILED`, its pending variant and `MPI_ERR_REVOKED` of mpi.h."""


def rank_failures(job: AgentJob, folder: Path) -> list[Failure]:
    """The failures that ranks of this host have reported so far."""
    if not folder.is_dir():
        return []
    from gpuproof.agent.ranks.report import read_reports  # only with a launcher whose ranks report

    failed = [report for report in read_reports(folder) if report.failed]
    # A launcher that has restarted all ranks leaves reports of failures that ended nothing.
    newest = max((report.attempt for report in failed), default=0)
    return [
        Failure(
            report.order,
            _error(report),
            _cause(job, report),
            # Under MPI, the first host has the reports of all.
            report.host if report.host in job.hosts and len(job.hosts) > 1 else host_name(job),
            report.rank,
            traceback=report.traceback,
        )
        for report in failed
        if report.attempt == newest
    ]


def _cause(job: AgentJob, report: RankReport) -> Cause:
    silent = report.type == "SystemExit" and not report.traceback
    if job.launcher == "mpi" and silent and report.code in _MPI_PEER_CODES:
        return Cause.PEER
    return exception_cause(report.type, report.message)


def _error(report: RankReport) -> str:
    """The rank's error in one line: an exception, an exit code or a signal."""
    code = 1 if report.code is None else report.code
    if report.type != "SystemExit" and code >= 0:
        return report.error.strip().partition("\n")[0]
    said = report.message.strip().partition("\n")[0]
    return describe_exit(code) if said in ("", str(code)) else f"{describe_exit(code)}: {said}"


def exit_failure(job: AgentJob, code: int, output: str, message: Path) -> Failure:
    """The failure of a script of which nothing else is known.

    Args:
        code: exit code, or minus the number of the signal that killed it.
        message: the file in which the script itself may have said why.
    """
    try:
        why = message.read_text(encoding="utf-8", errors="replace")[:LIMIT].strip()
    except OSError:
        why = ""
    cause = Cause.OWN if why else exit_cause(code, error_line(output))
    return Failure(time.time(), why or reason(job.entry_point, code, output), cause, host_name(job))


def host_name(job: AgentJob) -> str | None:
    """This host's name in messages; `None` if it is the only one."""
    return job.current_host if len(job.hosts) > 1 else None
