"""The instances of one job: disks, containers, logs and variables; the same for training and processing."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gpuproof.emulator.context import Context
from gpuproof.emulator.execution.environment import base_environment, region_environment, role_environment
from gpuproof.emulator.execution.host import Host
from gpuproof.emulator.execution.jobs.job_control import EndReason, JobControl, JobFailed, wait_for_containers
from gpuproof.emulator.execution.log_shipper import LogStream
from gpuproof.emulator.execution.network import IsolatedNetwork, NetworkUnavailable
from gpuproof.emulator.execution.s3_sync import FolderMirror, UploadFailed
from gpuproof.emulator.job_kinds import JOB_KINDS
from gpuproof.emulator.store import Resource


class Instances:
    """The instances of one attempt at a job.

    Args:
        context: the emulator's shared state.
        job: the job that runs on them.
        control: woken when a container ends.
        folder: for their disks.
        count: how many.
        isolated: whether the job has network isolation, and so no network and no credentials.
    """

    def __init__(
        self,
        context: Context,
        job: Resource,
        control: JobControl,
        folder: Path,
        count: int,
        *,
        isolated: bool,
    ) -> None:
        self._context = context
        self._job = job
        self._control = control
        self._isolated = isolated
        self._network: IsolatedNetwork | None = None
        self.hosts = [
            Host(f"algo-{number}", folder / f"algo-{number}", control.wake) for number in range(1, count + 1)
        ]

    @property
    def names(self) -> list[str]:
        """The hosts' names."""
        return [host.name for host in self.hosts]

    def start(
        self,
        image: str,
        command: Sequence[str],
        environment: Mapping[str, str],
        on_line: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Start every container, and send its output to CloudWatch Logs.

        Args:
            environment: the job's own variables.
            on_line: called with every line of every host.

        Raises:
            JobFailed: the job is to have network isolation, which this machine does not allow.
        """
        if self._isolated:
            try:
                self._network = IsolatedNetwork()
            except NetworkUnavailable as error:
                raise JobFailed(
                    f"InternalServerError: this machine does not allow network isolation: {error}"
                ) from error
        network_of = None if self._network is None else self._network.pid
        options, group = self._context.options, JOB_KINDS[self._job.kind].log_group
        logs = self._context.clients.get("logs", self._job.region)
        for host in self.hosts:
            stream = LogStream(logs, group, f"{self._job.name}/{host.name}-{int(time.time())}", on_line)
            base = base_environment(options, image, host.home, os.environ)
            host.start(command, {**base, **options.environment, **environment}, stream.copy, network_of)

    def wait(self, deadline: float, tick: Callable[[], None], interruption: float | None = None) -> EndReason:
        """Wait until every container has ended and its output was sent; arguments as of `wait_for_containers`."""
        options = self._context.options
        try:
            return wait_for_containers(
                self.hosts,
                self._control,
                deadline=deadline,
                interruption=interruption,
                grace=options.stop_grace,
                tick=tick,
                interval=options.checkpoint_interval,
            )
        finally:
            for host in self.hosts:
                # They have ended, unless `tick` failed.
                host.kill()
                host.join()
            if self._network is not None:
                self._network.close()

    def environment(self) -> dict[str, str]:
        """The variables of the job's containers."""
        job, prefix = self._job, JOB_KINDS[self._job.kind].word.upper()
        role = job.document["RoleArn"]
        credentials = (
            {} if self._isolated else role_environment(self._context.clients, job.region, role, job.name)
        )
        return {
            f"{prefix}_JOB_NAME": job.name,
            f"{prefix}_JOB_ARN": job.arn,
            **region_environment(job.region),
            **credentials,
            **(job.document.get("Environment") or {}),
        }

    def first_failed_host(self) -> Host | None:
        """The host whose container failed first; the others were ended because of it."""
        failed = [host for host in self.hosts if host.outcome is not None and host.outcome.code != 0]
        return min(failed, key=lambda host: host.ended_at, default=None)


def upload_changes(mirrors: Sequence[FolderMirror], what: str) -> None:
    """Upload what is new in folders.

    Args:
        what: `Artifact` or `Checkpoint`, for the message.

    Raises:
        JobFailed: S3 rejects an upload.
    """
    try:
        for mirror in mirrors:
            mirror.upload_changes()
    except UploadFailed as error:
        raise JobFailed(f"ClientError: {what} upload failed:{error}") from error


def read_text(path: Path, limit: int = 1024) -> str:
    """The first characters of a file that the script wrote; empty if it does not exist."""
    try:
        with path.open("rb") as file:
            return file.read(limit * 4).decode("utf-8", "replace")[:limit].strip()
    except OSError:
        return ""


def write_json(path: Path, document: Any) -> None:
    """Write a configuration file of SageMaker's contract."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document), encoding="utf-8")
