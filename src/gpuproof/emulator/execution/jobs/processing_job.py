"""One processing job, from the first instance to the last upload."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuproof.emulator.arns import arn_of
from gpuproof.emulator.execution.jobs.instances import (
    CANNOT_START,
    Instances,
    region_environment,
    text_of,
    write_json,
)
from gpuproof.emulator.execution.jobs.job_control import Control, Why, watch
from gpuproof.emulator.execution.jobs.startup_faults import ENDED_WITH_EMULATOR, JobFailed, begin
from gpuproof.emulator.execution.s3_sync import (
    DownloadFailed,
    FolderMirror,
    Location,
    UploadFailed,
    bring,
    share,
    with_manifest,
    with_prefix,
)
from gpuproof.emulator.protocol import now
from gpuproof.emulator.store import Resource

if TYPE_CHECKING:
    from gpuproof.emulator.emulator import Emulator

GROUP = "/aws/sagemaker/ProcessingJobs"
_ROOT = "/opt/ml/"


class ProcessingRun:
    """Carries one processing job out.

    Args:
        emulator: everything there is.
        job: the job, just created.
        control: what others want of it.
        folder: for its instances' disks.
    """

    def __init__(self, emulator: Emulator, job: Resource, control: Control, folder: Path) -> None:
        self._emulator = emulator
        self._job = job
        self._document = job.document
        self._control = control
        self._folder = folder
        self._s3 = emulator.clients.get("s3", job.region)

    def run(self) -> None:
        """Carry the job out, to its end."""
        cluster = self._document["ProcessingResources"]["ClusterConfig"]
        instances = Instances(
            self._emulator, self._job, self._control, self._folder, cluster["InstanceCount"]
        )
        try:
            status = self._carry_out(instances)
        except JobFailed as error:
            self._end(instances, "Failed", str(error))
            return
        self._end(instances, status)

    def _carry_out(self, instances: Instances) -> str:
        self._starting()
        if self._control.stop_asked:
            return "Stopped"
        continuous, at_end = self._prepare(instances)
        if self._control.stop_asked:
            return "Stopped"
        with self._emulator.store.changing(self._job):
            self._document["ProcessingStartTime"] = now()
        application = self._document["AppSpecification"]
        command = [
            *(application.get("ContainerEntrypoint") or ()),
            *(application.get("ContainerArguments") or ()),
        ]
        if not command:
            raise JobFailed(
                f"AlgorithmError: {CANNOT_START.format(problem='ContainerEntrypoint is not given, and an image cannot be asked for its own here')}"
            )
        variables = self._environment(instances)
        instances.start(application["ImageUri"], command, lambda _: variables, GROUP)
        why = watch(
            instances.hosts,
            self._control,
            deadline=time.monotonic() + self._document["StoppingCondition"]["MaxRuntimeInSeconds"],
            interruption=None,
            grace=self._emulator.options.stop_grace,
            tick=lambda: self._send(continuous),
            interval=self._emulator.options.checkpoint_interval,
        )
        for host in instances.hosts:
            host.join()
        if why is Why.SHUTDOWN:
            raise JobFailed(ENDED_WITH_EMULATOR)
        self._send(continuous)
        reason = self._failure(instances)
        if why is Why.OVER and reason is None:
            self._send(at_end)
            return "Completed"
        if why is Why.OVER:
            raise JobFailed(str(reason))
        return "Stopped"

    def _starting(self) -> None:
        kind = self._document["ProcessingResources"]["ClusterConfig"]["InstanceType"]
        begin(self._emulator, self._control, self._job.name, kind)

    def _prepare(self, instances: Instances) -> tuple[list[FolderMirror], list[FolderMirror]]:
        continuous: list[FolderMirror] = []
        at_end: list[FolderMirror] = []
        for number, host in enumerate(instances.hosts):
            lay_out(host.ml, self._document, host.name, instances.names)
            try:
                self._bring(host.ml, number, len(instances.hosts))
            except DownloadFailed as error:
                raise JobFailed(f"ClientError: Data download failed:{error}") from error
            config = self._document.get("ProcessingOutputConfig") or {}
            for output in config.get("Outputs", ()):
                target = output.get("S3Output")
                if not target:
                    continue
                folder = host.ml / target["LocalPath"].removeprefix(_ROOT)
                folder.mkdir(parents=True, exist_ok=True)
                place = Location.parse(target["S3Uri"])
                mirror = FolderMirror(self._s3, folder, place, config.get("KmsKeyId") or None)
                (continuous if target["S3UploadMode"] == "Continuous" else at_end).append(mirror)
        return continuous, at_end

    def _bring(self, ml: Path, number: int, count: int) -> None:
        for item in self._document.get("ProcessingInputs") or ():
            source = item["S3Input"]
            if "LocalPath" not in source or item.get("AppManaged"):
                continue
            place = Location.parse(source["S3Uri"])
            if source["S3DataType"] == "ManifestFile":
                bucket, keys = with_manifest(self._s3, place)
            else:
                bucket, keys = place.bucket, with_prefix(self._s3, place)
            if source.get("S3DataDistributionType") == "ShardedByS3Key":
                keys = share(keys, number, count)
            folder = ml / source["LocalPath"].removeprefix(_ROOT)
            bring(self._s3, bucket, keys, folder, unzip=source.get("S3CompressionType") == "Gzip")

    def _environment(self, instances: Instances) -> dict[str, str]:
        isolated = (self._document.get("NetworkConfig") or {}).get("EnableNetworkIsolation")
        return {
            "PROCESSING_JOB_NAME": self._job.name,
            "PROCESSING_JOB_ARN": arn_of(self._job),
            **region_environment(self._job.region),
            **({} if isolated else instances.credentials(self._document["RoleArn"])),
            **(self._document.get("Environment") or {}),
        }

    def _failure(self, instances: Instances) -> str | None:
        host = instances.failing_host()
        if host is None or host.outcome is None:
            return None
        if host.outcome.code is None and host.outcome.ours:
            return f"InternalServerError: {host.outcome.problem}"
        if host.outcome.code is None:
            return f"AlgorithmError: {CANNOT_START.format(problem=host.outcome.problem)}"
        return "AlgorithmError: See job logs for more information"

    def _send(self, mirrors: list[FolderMirror]) -> None:
        try:
            for mirror in mirrors:
                mirror.send()
        except UploadFailed as error:
            raise JobFailed(f"ClientError: Artifact upload failed:{error}") from error

    def _end(self, instances: Instances, status: str, reason: str = "") -> None:
        messages = (text_of(host.ml / "output" / "message") for host in instances.hosts)
        message = next((text for text in messages if text), "")
        with self._emulator.store.changing(self._job):
            if message:
                self._document["ExitMessage"] = message
            if reason:
                self._document["FailureReason"] = reason[:1024]
            self._document["ProcessingEndTime"] = now()
            self._document["ProcessingJobStatus"] = status


def lay_out(ml: Path, document: dict[str, Any], host: str, hosts: list[str]) -> None:
    """Make the folders and configuration files of one instance.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/build-your-own-processing-container.html
    """
    for folder in ("output", "processing"):
        (ml / folder).mkdir(parents=True, exist_ok=True)
    cluster = document["ProcessingResources"]["ClusterConfig"]
    resources = {
        "current_host": host,
        "hosts": hosts,
        "current_instance_type": cluster["InstanceType"],
        "network_interface_name": "eth0",
    }
    write_json(ml / "config" / "resourceconfig.json", resources)
    told = ("ProcessingJobArn", "ProcessingJobName", "AppSpecification", "Environment", "ProcessingInputs")
    more = ("ProcessingOutputConfig", "ProcessingResources", "RoleArn", "StoppingCondition", "NetworkConfig")
    config = {name: document.get(name) for name in (*told, *more)}
    write_json(ml / "config" / "processingjobconfig.json", config)
