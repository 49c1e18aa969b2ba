"""The instances of one job: disks, containers, logs and variables; the same for training and processing."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gpuproof.agent.failure import error_line, split_code
from gpuproof.agent.hosts import NetworkUnavailable
from gpuproof.agent.ranks.host_failure import Cause, Failure, exit_cause, first_failure
from gpuproof_emulator.context import Context
from gpuproof_emulator.execution.environment import base_environment, region_environment, role_environment
from gpuproof_emulator.execution.host import Host
from gpuproof_emulator.execution.jobs.job_control import EndReason, JobControl, JobFailed, wait_for_containers
from gpuproof_emulator.execution.jobs.sdk_drivers import prepare_mpi_driver
from gpuproof_emulator.execution.log_shipper import LogStream
from gpuproof_emulator.execution.network import JobNetwork
from gpuproof_emulator.execution.s3_sync import FolderMirror, UploadFailed
from gpuproof_emulator.execution.utilization import InstanceMonitor, Series, volume_bytes
from gpuproof_emulator.job_kinds import JOB_KINDS
from gpuproof_emulator.store import Resource


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
        self.hosts = [
            Host(f"algo-{number}", folder / f"algo-{number}", control.wake) for number in range(1, count + 1)
        ]
        self._network = JobNetwork(self.names, isolated=isolated)
        self._monitors: list[InstanceMonitor] = []

    @property
    def names(self) -> list[str]:
        """The hosts' names."""
        return [host.name for host in self.hosts]

    @property
    def interface(self) -> str:
        """The network interface that `resourceconfig.json` names."""
        return self._network.interface

    def prepare_mpi_driver(self, image: str) -> None:
        """Give the hosts what the program for MPI of the SageMaker SDK v3 needs.

        Raises:
            DriverUnavailable: this machine lacks something.
        """
        environment = base_environment(self._context.options, image, self.hosts[0].home, os.environ)
        prepare_mpi_driver(self.hosts, environment, separate=self._network.separate)

    def start(
        self,
        image: str,
        command: Sequence[str],
        environment: Mapping[str, str],
        cluster: Mapping[str, Any],
        on_line: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Start every container, and send its output to CloudWatch Logs.

        Args:
            environment: the job's own variables.
            cluster: the request's `ResourceConfig` or `ClusterConfig`.
            on_line: called with every line of every host.

        Raises:
            JobFailed: this machine does not allow the job's network.
        """
        options, group = self._context.options, JOB_KINDS[self._job.kind].log_group
        own = {**options.environment, **environment}
        bases = [base_environment(options, image, host.home, os.environ) for host in self.hosts]
        try:
            proxies = self._network.create(self._context.clients.url, {**bases[0], **own})
        except NetworkUnavailable as error:
            what = "network isolation" if self._isolated else "a network for each host"
            raise JobFailed(f"InternalServerError: this machine does not allow {what}: {error}") from error
        logs = self._context.clients.of_role(self._job.document["RoleArn"], "logs", self._job.region)
        started = int(time.time())
        try:
            for host, base in zip(self.hosts, bases, strict=True):
                stream = LogStream(logs, group, f"{self._job.name}/{host.name}-{started}", on_line)
                placement = self._network.placement(host.name)
                host.start(command, {**base, **own, **proxies}, stream.copy, placement)
                self._monitor(host, cluster)
        except BaseException:
            self._end()
            raise

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
            self._end()

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
        """The host that failed first by itself; the others failed or were stopped because of it."""
        return first_failed(self.hosts)

    def _end(self) -> None:
        """End what still runs: nothing, unless something here has failed."""
        for host in self.hosts:
            host.kill()
            host.join()
        for monitor in self._monitors:
            monitor.stop()
        self._network.close()

    def _monitor(self, host: Host, cluster: Mapping[str, Any]) -> None:
        """Publish the utilization of a host while it runs."""
        cloudwatch = self._context.clients.get("cloudwatch", self._job.region)
        series = Series.of_job(cloudwatch, JOB_KINDS[self._job.kind].word, self._job.name, host.name)
        kind = instance_type(cluster, self.hosts.index(host))
        monitor = InstanceMonitor(series, host, kind, volume_bytes(cluster.get("VolumeSizeInGB"), kind))
        monitor.start()
        self._monitors.append(monitor)


def instance_type(cluster: Mapping[str, Any], number: int) -> str:
    """The instance type of one host, from 0.

    Args:
        cluster: the request's `ResourceConfig`, which may have groups of different types, or `ClusterConfig`.
    """
    groups = cluster.get("InstanceGroups") or [cluster]
    types = [group["InstanceType"] for group in groups for _ in range(group["InstanceCount"])]
    return types[number]


def first_failed(hosts: Sequence[Host]) -> Host | None:
    """The host whose failure caused those of the others; None if none has failed."""
    failed = {host.name: host for host in hosts if host.outcome is not None and host.outcome.code != 0}
    return failed[first_failure(map(_failure, failed.values())).host or ""] if failed else None


def name_host(reason: str, host: Host, hosts: Sequence[Host]) -> str:
    """Add the host that failed to a FailureReason, if the job has several and the reason does not begin with one."""
    text = split_code(reason)[1].partition(": ")[2]
    if len(hosts) == 1 or text.startswith(tuple(other.name for other in hosts)):
        return reason
    ending = f", host: {host.name}"
    return reason[: 1024 - len(ending)] + ending


def _failure(host: Host) -> Failure:
    """How a host failed.

    A container may take long to end after it has failed: the moment at which it wrote why is closer to the failure.
    """
    file = host.ml / "output" / "failure"
    text = read_text(file)
    try:
        moment = file.stat().st_mtime
    except OSError:
        moment = host.ended_at
    code = host.outcome.code if host.outcome is not None else None
    cause = Cause.OWN if code is None else exit_cause(code, error_line(text))
    if host.stopped_at is not None and moment > host.stopped_at:
        cause = Cause.TERMINATED
    return Failure(moment, text, cause, host.name)


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
