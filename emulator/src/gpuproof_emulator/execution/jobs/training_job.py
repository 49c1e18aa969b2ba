"""Runs one training job, from its instances to the upload of its artifacts."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from gpuproof.agent.artifacts.archive_create import ArtifactError
from gpuproof.agent.artifacts.archive_extract import unpack
from gpuproof_emulator.context import Context
from gpuproof_emulator.execution.host import ContainerOutcome, Host, start_failure
from gpuproof_emulator.execution.jobs import training_layout
from gpuproof_emulator.execution.jobs.artifacts import have_content, pack_artifacts
from gpuproof_emulator.execution.jobs.instances import Instances, name_host, read_text, upload_changes
from gpuproof_emulator.execution.jobs.job_control import SHUT_DOWN, EndReason, JobControl, JobFailed
from gpuproof_emulator.execution.jobs.metrics import Metrics
from gpuproof_emulator.execution.jobs.sdk_drivers import DriverUnavailable, uses_mpi_driver
from gpuproof_emulator.execution.jobs.startup_faults import apply_startup_faults
from gpuproof_emulator.execution.jobs.training_toolkit import (
    TOOLKIT_PROGRAM,
    has_training_toolkit,
    prepare_toolkit,
)
from gpuproof_emulator.execution.jobs.warm_pools import claim_warm_pool
from gpuproof_emulator.execution.s3_sync import (
    DownloadFailed,
    FolderMirror,
    S3Location,
    UploadFailed,
    upload_file,
    upload_folder,
)
from gpuproof_emulator.faults.fault import Fault
from gpuproof_emulator.protocol import now
from gpuproof_emulator.store import Resource

SPOT_PRICE_RATIO = 0.3
"""Billed seconds per second of spot training. AWS's ratio differs by type and hour; the emulator's is constant."""

_STATUS_MESSAGES = {
    "Starting": "Preparing the instances for training",
    "Downloading": "Downloading input data",
    "Training": "Training image download completed. Training in progress.",
    "Uploading": "Uploading generated training model",
    "Stopped": "Training job stopped",
    "Completed": "Training job completed",
    "Failed": "Training job failed",
    "Interrupted": "Training job was interrupted because the managed spot instances were taken",
    "MaxRuntimeExceeded": "Training job runtime exceeded MaxRuntimeInSeconds provided",
    "MaxWaitTimeExceeded": "Training job runtime exceeded MaxWaitTimeInSeconds provided",
}
_BEFORE_UPLOAD = ("Starting", "Downloading", "Training")


class TrainingJobRun:
    """Runs one training job.

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
        self._metrics = Metrics(self._document["AlgorithmSpecification"].get("MetricDefinitions") or ())

    def run(self) -> None:
        """Run the job to its end, and record its status."""
        try:
            status, secondary = self._run_attempts()
        except JobFailed as error:
            self._record_end("Failed", "Failed", str(error))
            return
        if not self._control.shut_down:
            self._record_end(status, secondary)

    def _run_attempts(self) -> tuple[str, str]:
        """Run attempts until one is not interrupted; returns the job's status and secondary status."""
        limits = self._document["StoppingCondition"]
        run_deadline = time.monotonic() + limits["MaxRuntimeInSeconds"]
        wait_deadline = time.monotonic() + limits.get("MaxWaitTimeInSeconds", math.inf)
        attempt = 1
        while True:
            interruption = self._next_interruption()
            reason, instances = self._run_attempt(attempt, interruption, min(run_deadline, wait_deadline))
            if reason is EndReason.SHUTDOWN:
                raise JobFailed(SHUT_DOWN)
            if reason is EndReason.INTERRUPTED and interruption is not None:
                self._set_secondary_status("Interrupted")
                if interruption.final:
                    return "Stopped", "Interrupted"
                attempt += 1
                self._set_secondary_status("Starting")
                continue
            if reason is EndReason.TIMED_OUT:
                exceeded = "MaxWaitTimeExceeded" if wait_deadline < run_deadline else "MaxRuntimeExceeded"
                self._upload_artifacts(instances, succeeded=True)
                return "Stopped", exceeded
            if reason is EndReason.STOPPED:
                self._upload_artifacts(instances, succeeded=True)
                return "Stopped", "Stopped"
            failure = _failure(instances)
            self._upload_artifacts(instances, succeeded=failure is None)
            if failure is not None:
                raise JobFailed(failure)
            return "Completed", "Completed"

    def _run_attempt(
        self, attempt: int, interruption: Fault | None, deadline: float
    ) -> tuple[EndReason, Instances]:
        config = self._document["ResourceConfig"]
        count = sum(group["InstanceCount"] for group in config.get("InstanceGroups") or [config])
        instances = Instances(
            self._context,
            self._job,
            self._control,
            self._folder / str(attempt),
            count,
            isolated=bool(self._document.get("EnableNetworkIsolation")),
        )
        warm = claim_warm_pool(self._context.store, self._job)
        apply_startup_faults(self._context, self._control, self._job.name, self._instance_type(), warm=warm)
        if self._control.shut_down:
            return EndReason.SHUTDOWN, instances
        if self._control.stop_requested:
            return EndReason.STOPPED, instances
        self._set_secondary_status("Downloading")
        mirrors = self._prepare(instances)
        if self._control.stop_requested:
            return EndReason.STOPPED, instances
        command = self._command(instances)
        self._set_secondary_status("Training")
        started = time.monotonic()
        with self._context.store.modify(self._job):
            self._document.setdefault("TrainingStartTime", now())
        variables = instances.environment()
        image = self._document["AlgorithmSpecification"]["TrainingImage"]
        self._control.interrupted = False
        instances.start(image, command, variables, config, lambda line: self._on_line(line, interruption))
        reason = instances.wait(
            deadline,
            lambda: self._send_progress(mirrors),
            interruption=None if interruption is None or interruption.line else started + interruption.after,
        )
        self._send_progress(mirrors)
        return reason, instances

    def _send_progress(self, mirrors: Sequence[FolderMirror]) -> None:
        self._metrics.publish(
            self._context.clients.of_role(self._document["RoleArn"], "cloudwatch", self._job.region),
            self._job.name,
        )
        upload_changes(mirrors, "Checkpoint")

    def _on_line(self, line: str, interruption: Fault | None) -> None:
        self._metrics.scan_line(line)
        if interruption is not None and interruption.line and fnmatchcase(line, interruption.line):
            self._control.interrupt()

    def _next_interruption(self) -> Fault | None:
        if not self._document.get("EnableManagedSpotTraining"):
            return None
        faults = self._context.faults
        return faults.trigger(("interruption",), name=self._job.name, instance=self._instance_type())

    def _instance_type(self) -> str:
        config = self._document["ResourceConfig"]
        return config.get("InstanceType") or config["InstanceGroups"][0]["InstanceType"]

    def _prepare(self, instances: Instances) -> list[FolderMirror]:
        """Prepare the instances' disks; returns the folders of checkpoints to upload."""
        mirrors: list[FolderMirror] = []
        for number, host in enumerate(instances.hosts):
            training_layout.write_layout(
                host.ml, self._document, host.name, instances.names, instances.interface
            )
            try:
                training_layout.download_channels(
                    self._s3, host.ml, self._document, number, len(instances.hosts)
                )
                if mirror := self._checkpoint_mirror(host):
                    mirror.restore()
                    mirrors.append(mirror)
            except DownloadFailed as error:
                raise JobFailed(f"ClientError: Data download failed:{error}") from error
        return mirrors

    def _checkpoint_mirror(self, host: Host) -> FolderMirror | None:
        config = self._document.get("CheckpointConfig")
        if not config:
            return None
        folder = training_layout.checkpoint_folder(host.ml, config)
        if folder is None:
            raise JobFailed(
                f"ClientError: this emulator supports checkpoints only below /opt/ml, not in {config['LocalPath']}."
            )
        folder.mkdir(parents=True, exist_ok=True)
        return FolderMirror(self._s3, folder, S3Location.parse(config["S3Uri"]), self._kms_key())

    def _command(self, instances: Instances) -> list[str]:
        algorithm = self._document["AlgorithmSpecification"]
        arguments = algorithm.get("ContainerArguments") or []
        if uses_mpi_driver(instances.hosts[0].ml):
            try:
                instances.prepare_mpi_driver(algorithm["TrainingImage"])
            except DriverUnavailable as error:
                raise JobFailed(f"AlgorithmError: {error}, exit code: 1") from error
        if entry := algorithm.get("ContainerEntrypoint"):
            return [*entry, *arguments]
        if has_training_toolkit(self._context.options, algorithm["TrainingImage"]):
            return [TOOLKIT_PROGRAM, *arguments]
        try:
            return prepare_toolkit(
                self._s3,
                instances.hosts,
                self._document.get("HyperParameters") or {},
                self._context.options.state,
            )
        except DownloadFailed as error:
            raise JobFailed(f"AlgorithmError: the source of the job: {error}, exit code: 1") from error

    def _upload_artifacts(self, instances: Instances, *, succeeded: bool) -> None:
        if not instances.hosts or not (instances.hosts[0].ml / "model").is_dir():
            return
        self._set_secondary_status("Uploading")
        output = self._document["OutputDataConfig"]
        location = S3Location.parse(output["S3OutputPath"]).below(self._job.name, "output")
        compressed = output.get("CompressionType") != "NONE"
        mls = [host.ml for host in instances.hosts]
        try:
            if have_content(mls, "output/data"):
                self._upload_packed(mls, "output/data", location, "output", compressed=compressed)
            if succeeded or have_content(mls, "model"):
                self._upload_packed(mls, "model", location, "model", compressed=compressed)
        except (UploadFailed, ArtifactError) as error:
            raise JobFailed(f"ClientError: Artifact upload failed:{error}") from error
        suffix = "model.tar.gz" if compressed else "model/"
        with self._context.store.modify(self._job):
            self._document["ModelArtifacts"] = {"S3ModelArtifacts": f"{location}/{suffix}"}

    def _upload_packed(
        self, mls: Sequence[Path], source: str, location: S3Location, name: str, *, compressed: bool
    ) -> None:
        archive = self._folder / f"{name}.tar.gz"
        pack_artifacts(mls, source, archive)
        if compressed:
            upload_file(self._s3, archive, location.below(archive.name), self._kms_key())
            return
        unpacked = self._folder / f"all-{name}"
        unpack(archive, unpacked)
        upload_folder(self._s3, unpacked, location.below(name), self._kms_key())

    def _kms_key(self) -> str | None:
        return self._document["OutputDataConfig"].get("KmsKeyId") or None

    def _set_secondary_status(self, status: str) -> None:
        with self._context.store.modify(self._job):
            stopping = self._document["TrainingJobStatus"] == "Stopping" and status in _BEFORE_UPLOAD
            if not stopping and self._document["SecondaryStatusTransitions"][-1]["Status"] != status:
                add_transition(self._document, status, StatusMessage=_STATUS_MESSAGES[status])

    def _record_end(self, status: str, secondary: str, reason: str = "") -> None:
        self._set_secondary_status(secondary)
        with self._context.store.modify(self._job):
            document = self._document
            moment = end_transition(document, StatusMessage=reason or _STATUS_MESSAGES[secondary])
            document["FinalMetricDataList"] = self._metrics.final()
            document["TrainingEndTime"] = moment
            document["DebugRuleEvaluationStatuses"] = None
            if "TrainingStartTime" in document:
                seconds = max(1, math.ceil(moment - document["TrainingStartTime"]))
                spot = document.get("EnableManagedSpotTraining")
                document["TrainingTimeInSeconds"] = seconds
                document["BillableTimeInSeconds"] = (
                    max(1, round(seconds * SPOT_PRICE_RATIO)) if spot else seconds
                )
            if reason:
                document["FailureReason"] = reason[:1024]
            document["TrainingJobStatus"] = status


def add_transition(document: dict[str, Any], status: str, **members: str) -> None:
    """Set a training job's secondary status, which ends the one before; the job's store must be locked."""
    transitions = document["SecondaryStatusTransitions"]
    moment = _now_or_start(transitions[-1])
    document["SecondaryStatus"] = status
    transitions[-1].setdefault("EndTime", moment)
    transitions.append({"Status": status, "StartTime": moment, **members})


def end_transition(document: dict[str, Any], **members: str) -> float:
    """End a training job's last secondary status; returns when it ended, in seconds since the epoch."""
    last = document["SecondaryStatusTransitions"][-1]
    last.update(EndTime=_now_or_start(last), **members)
    return last["EndTime"]


def _now_or_start(transition: dict[str, Any]) -> float:
    """A clock that is set back ends no status before it began."""
    return max(now(), transition["StartTime"])


def failure_reason(outcome: ContainerOutcome, message: str) -> str:
    """A training job's `FailureReason`, in SageMaker's format.

    Args:
        message: the content of the container's `/opt/ml/output/failure`.
    """
    if reason := start_failure(outcome):
        return reason
    ending = f", exit code: {outcome.code}"
    return f"AlgorithmError: {message[: 1024 - len('AlgorithmError: ') - len(ending)]}{ending}"


def _failure(instances: Instances) -> str | None:
    host = instances.first_failed_host()
    if host is None or host.outcome is None:
        return None
    reason = failure_reason(host.outcome, read_text(host.ml / "output" / "failure"))
    return name_host(reason, host, instances.hosts)
