"""Use case `gpuproof verdict`: the verdict on a job from the reports of its hosts."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gpuproof.agent.notify.aws_request import Credentials
from gpuproof.app.watch_cost import with_cost
from gpuproof.catalogue import Catalogue
from gpuproof.errors import ExitCode, GPUproofError, UsageError
from gpuproof.settings import boto3_session
from gpuproof.watch.group.job_reports import Job
from gpuproof.watch.group.location import S3_SCHEME
from gpuproof.watch.group.publication import groups, read_job
from gpuproof.watch.group.s3_client import S3Client
from gpuproof.watch.group.store import FolderStore, Store, StoreError, open_store
from gpuproof.watch.report import KIND, WatchReport


class ReportsUnreadable(GPUproofError):
    """The reports cannot be read, or there are none."""

    exit_code = ExitCode.UNDECIDED


@dataclass(frozen=True)
class JobVerdict:
    """The verdict on a job.

    Args:
        missing: hosts that have left nothing.
        running: hosts that have begun and left no report.
    """

    report: WatchReport
    missing: tuple[str, ...] = ()
    running: tuple[str, ...] = ()

    @property
    def exit_code(self) -> ExitCode:
        """4 if a required GPU did no work, 3 if that is unknown, else 0."""
        if self.report.requirement_met is False:
            return ExitCode.GPU_UNUSED
        return ExitCode.UNDECIDED if self.report.requirement_met is None else ExitCode.OK

    def to_json(self) -> dict[str, Any]:
        """The report with the hosts that are missing."""
        return {**self.report.to_json(), "missing_hosts": [*self.missing], "running_hosts": [*self.running]}


def read_verdict(location: str) -> JobVerdict:
    """Read the verdict on a job.

    Args:
        location: a report, the folder to which the hosts of a job have written theirs, or its `s3://` location.

    Raises:
        UsageError: there is no such file or folder, or it has the reports of several jobs.
        ReportsUnreadable: it has no report, or S3 refuses to show it.
    """
    catalogue = Catalogue.load()
    if not location.startswith(S3_SCHEME):
        path = Path(location)
        if not path.exists():
            raise UsageError(
                f"{location} does not exist.", "Name a report, or the folder that --to has named."
            )
        if path.is_file():
            return JobVerdict(with_cost(_read_report(path), catalogue))
    try:
        return _of_job(location, catalogue)
    except StoreError as problem:
        raise ReportsUnreadable(f"{problem}."[:1].upper() + f"{problem}."[1:]) from problem


def _of_job(location: str, catalogue: Catalogue) -> JobVerdict:
    base = location.rstrip("/") or location
    store = _open(base)
    job = read_job(store)
    if not job.documents:
        found = groups(store)
        if len(found) > 1:
            names = ", ".join(found[:-1])
            raise UsageError(
                f"{location} has the reports of {len(found)} jobs: {names} and {found[-1]}.",
                f"Name one of them: gpuproof verdict {base}/{found[0]}",
            )
        job = read_job(_open(f"{base}/{found[0]}")) if found else job
    priced = [
        replace(document, report=with_cost(document.report, catalogue)) if document.report else document
        for document in job.documents
    ]
    job = Job(priced)
    try:
        report = job.report()
    except ValueError:
        begun = f" {', '.join(job.running)} has begun, and has not ended." if job.running else ""
        raise ReportsUnreadable(
            f"{location} has no report of gpuproof watch.{begun}",
            "The hosts of a job write theirs there with: gpuproof watch --to " + location + " -- COMMAND",
        ) from None
    return JobVerdict(report, job.missing, job.running)


def _open(location: str) -> Store:
    if not location.startswith(S3_SCHEME):
        return FolderStore(Path(location))
    session = boto3_session()
    credentials = session.get_credentials()
    environ = {**os.environ, **({"AWS_REGION": session.region_name} if session.region_name else {})}
    if credentials is None:
        return open_store(location, environ)
    frozen = credentials.get_frozen_credentials()
    own = Credentials(frozen.access_key, frozen.secret_key, frozen.token)
    return open_store(location, environ, S3Client(environ, own))


def _read_report(path: Path) -> WatchReport:
    try:
        document: Any = json.loads(path.read_bytes())
    except OSError as error:
        raise ReportsUnreadable(f"{path} cannot be read: {error.strerror}.") from error
    except ValueError:
        raise ReportsUnreadable(f"{path} is no report: it is not JSON.") from None
    try:
        if isinstance(document, dict) and document.get("kind") == KIND:
            return WatchReport.from_json(document)
    except ValueError as problem:
        raise ReportsUnreadable(f"{path}: {problem}.") from problem
    if isinstance(document, dict) and "outcome" in document:
        return WatchReport(document, seconds=float(document.get("seconds") or 0))  # a run's verdict.json
    raise ReportsUnreadable(f"{path} is no report of gpuproof watch, and no verdict.json.")
