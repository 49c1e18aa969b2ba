"""Runs one processing job, from its instances to the upload of its outputs."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from gpuproof_emulator.context import Context
from gpuproof_emulator.execution.container_paths import host_path
from gpuproof_emulator.execution.host import cannot_start, start_failure
from gpuproof_emulator.execution.jobs.instances import (
    Instances,
    name_host,
    read_text,
    upload_changes,
    write_json,
)
from gpuproof_emulator.execution.jobs.job_control import SHUT_DOWN, EndReason, JobControl, JobFailed
from gpuproof_emulator.execution.jobs.startup_faults import apply_startup_faults
from gpuproof_emulator.execution.s3_sync import DownloadFailed, FolderMirror, S3Location, download_source
from gpuproof_emulator.protocol import now
from gpuproof_emulator.store import Resource


class ProcessingJobRun:
    """Runs one processing job.

    Args:
        context: the emulator's shared state.
        job: the new job.
        control: requests to the job from other threads.
        folder: for its instances' disks.
    """

    def __init__(self, context: Context, job: Resource, control: JobControl, folder: Path) -> None:
        self._context = context
        self._job = job
        self._document = job.document
        self._control = control
        self._folder = folder
        self._s3 = context.clients.of_role(self._document["RoleArn"], "s3", job.region)

    def run(self) -> None:
        """Run the job to its end, and record its status."""
        cluster = self._document["ProcessingResources"]["ClusterConfig"]
        isolated = bool((self._document.get("NetworkConfig") or {}).get("EnableNetworkIsolation"))
        instances = Instances(
            self._context,
            self._job,
            self._control,
            self._folder,
            cluster["InstanceCount"],
            isolated=isolated,
        )
        try:
            status = self._run_containers(instances, cluster["InstanceType"])
        except JobFailed as error:
            self._record_end(instances, "Failed", str(error))
            return
        self._record_end(instances, status)

    def _run_containers(self, instances: Instances, instance_type: str) -> str:
        apply_startup_faults(self._context, self._control, self._job.name, instance_type)
        if self._control.stop_requested:
            return "Stopped"
        continuous, at_end = self._prepare(instances)
        if self._control.stop_requested:
            return "Stopped"
        with self._context.store.modify(self._job):
            self._document["ProcessingStartTime"] = now()
        application = self._document["AppSpecification"]
        command = [
            *(application.get("ContainerEntrypoint") or ()),
            *(application.get("ContainerArguments") or ()),
        ]
        if not command:
            problem = cannot_start(
                "ContainerEntrypoint is not specified, and this emulator cannot read it from the image"
            )
            raise JobFailed(f"AlgorithmError: {problem}")
        cluster = self._document["ProcessingResources"]["ClusterConfig"]
        instances.start(application["ImageUri"], command, instances.environment(), cluster)
        deadline = time.monotonic() + self._document["StoppingCondition"]["MaxRuntimeInSeconds"]
        reason = instances.wait(deadline, lambda: upload_changes(continuous, "Artifact"))
        if reason is EndReason.SHUTDOWN:
            raise JobFailed(SHUT_DOWN)
        upload_changes(continuous, "Artifact")
        if reason is not EndReason.EXITED:
            return "Stopped"
        if failure := _failure(instances):
            raise JobFailed(failure)
        upload_changes(at_end, "Artifact")
        return "Completed"

    def _prepare(self, instances: Instances) -> tuple[list[FolderMirror], list[FolderMirror]]:
        """Prepare the instances' disks; returns the outputs to upload continuously and those to upload at the end."""
        continuous: list[FolderMirror] = []
        at_end: list[FolderMirror] = []
        for number, host in enumerate(instances.hosts):
            write_layout(host.ml, self._document, host.name, instances.names, instances.interface)
            try:
                self._download_inputs(host.ml, number, len(instances.hosts))
            except DownloadFailed as error:
                raise JobFailed(f"ClientError: Data download failed:{error}") from error
            config = self._document.get("ProcessingOutputConfig") or {}
            for output in config.get("Outputs", ()):
                target = output.get("S3Output")
                if not target:
                    continue
                folder = host_path(host.ml, target["LocalPath"])
                folder.mkdir(parents=True, exist_ok=True)
                location = S3Location.parse(target["S3Uri"])
                mirror = FolderMirror(self._s3, folder, location, config.get("KmsKeyId") or None)
                (continuous if target["S3UploadMode"] == "Continuous" else at_end).append(mirror)
        return continuous, at_end

    def _download_inputs(self, ml: Path, number: int, count: int) -> None:
        for item in self._document.get("ProcessingInputs") or ():
            source = item["S3Input"]
            if "LocalPath" in source and not item.get("AppManaged"):
                folder = host_path(ml, source["LocalPath"])
                unzip = source.get("S3CompressionType") == "Gzip"
                download_source(self._s3, source, folder, number, count, unzip=unzip)

    def _record_end(self, instances: Instances, status: str, reason: str = "") -> None:
        messages = (read_text(host.ml / "output" / "message") for host in instances.hosts)
        message = next((text for text in messages if text), "")
        with self._context.store.modify(self._job):
            if message:
                self._document["ExitMessage"] = message
            if reason:
                self._document["FailureReason"] = reason[:1024]
            self._document["ProcessingEndTime"] = now()
            self._document["ProcessingJobStatus"] = status


def write_layout(ml: Path, document: dict[str, Any], host: str, hosts: list[str], interface: str) -> None:
    """Create the folders and configuration files of one instance.

    Args:
        interface: the hosts' network interface.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/build-your-own-processing-container.html
    """
    for folder in ("output", "processing"):
        (ml / folder).mkdir(parents=True, exist_ok=True)
    cluster = document["ProcessingResources"]["ClusterConfig"]
    resources = {
        "current_host": host,
        "hosts": hosts,
        "current_instance_type": cluster["InstanceType"],
        "network_interface_name": interface,
    }
    write_json(ml / "config" / "resourceconfig.json", resources)
    names = ("ProcessingJobArn", "ProcessingJobName", "AppSpecification", "Environment", "ProcessingInputs")
    more = ("ProcessingOutputConfig", "ProcessingResources", "RoleArn", "StoppingCondition", "NetworkConfig")
    config = {name: document.get(name) for name in (*names, *more)}
    write_json(ml / "config" / "processingjobconfig.json", config)


def _failure(instances: Instances) -> str | None:
    host = instances.first_failed_host()
    if host is None or host.outcome is None:
        return None
    reason = start_failure(host.outcome) or "AlgorithmError: See job logs for more information"
    return name_host(reason, host, instances.hosts)
