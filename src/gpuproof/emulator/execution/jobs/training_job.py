"""One training job, from the first instance to the last upload."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from gpuproof.agent.artifacts.archive_create import pack
from gpuproof.emulator.arns import arn_of
from gpuproof.emulator.execution.host import Host, Outcome
from gpuproof.emulator.execution.jobs import training_layout
from gpuproof.emulator.execution.jobs.instances import CANNOT_START, Instances, region_environment, text_of
from gpuproof.emulator.execution.jobs.job_control import Control, Why, watch
from gpuproof.emulator.execution.jobs.metrics import Metrics
from gpuproof.emulator.execution.jobs.startup_faults import ENDED_WITH_EMULATOR, JobFailed, begin
from gpuproof.emulator.execution.jobs.training_toolkit import prepare_toolkit
from gpuproof.emulator.execution.jobs.warm_pools import take_pool
from gpuproof.emulator.execution.s3_sync import (
    DownloadFailed,
    FolderMirror,
    Location,
    UploadFailed,
    send_file,
    send_folder,
)
from gpuproof.emulator.faults.fault import Fault
from gpuproof.emulator.protocol import now
from gpuproof.emulator.store import Resource

if TYPE_CHECKING:
    from gpuproof.emulator.emulator import Emulator

GROUP = "/aws/sagemaker/TrainingJobs"
SPOT_SHARE = 0.3
"""What a second of spot training is billed as: AWS's prices differ by type and hour, this emulator's do not."""

_SAID = {
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


_BEFORE_THE_END = ("Starting", "Downloading", "Training")


class TrainingRun:
    """Carries one training job out.

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
        self._metrics = Metrics(self._document["AlgorithmSpecification"].get("MetricDefinitions") or ())
        self._deadline = 0.0

    def run(self) -> None:
        """Carry the job out, to its end."""
        try:
            status, secondary = self._attempts()
        except JobFailed as error:
            self._end("Failed", "Failed", str(error))
            return
        if not self._control.shut_down:
            self._end(status, secondary)

    def _attempts(self) -> tuple[str, str]:
        times = self._document["StoppingCondition"]
        self._deadline = time.monotonic() + times["MaxRuntimeInSeconds"]
        patience = time.monotonic() + times.get("MaxWaitTimeInSeconds", math.inf)
        attempt = 1
        while True:
            interruption = self._interruption()
            why, instances = self._attempt(attempt, interruption, min(self._deadline, patience))
            if why is Why.SHUTDOWN:
                raise JobFailed(ENDED_WITH_EMULATOR)
            if why is Why.INTERRUPTED and interruption is not None:
                self._secondary("Interrupted")
                if interruption.final:
                    return "Stopped", "Interrupted"
                attempt += 1
                self._secondary("Starting")
                continue
            if why is Why.TIME:
                over = "MaxWaitTimeExceeded" if patience < self._deadline else "MaxRuntimeExceeded"
                self._upload(instances, succeeded=True)
                return "Stopped", over
            if why is Why.STOPPED:
                self._upload(instances, succeeded=True)
                return "Stopped", "Stopped"
            reason = self._failure(instances)
            self._upload(instances, succeeded=reason is None)
            if reason is not None:
                raise JobFailed(reason)
            return "Completed", "Completed"

    def _attempt(self, attempt: int, interruption: Fault | None, deadline: float) -> tuple[Why, Instances]:
        count = sum(
            group["InstanceCount"]
            for group in self._document["ResourceConfig"].get("InstanceGroups")
            or [self._document["ResourceConfig"]]
        )
        instances = Instances(self._emulator, self._job, self._control, self._folder / str(attempt), count)
        self._starting()
        if self._control.stop_asked or self._control.shut_down:
            return (Why.SHUTDOWN if self._control.shut_down else Why.STOPPED), instances
        self._secondary("Downloading")
        mirrors = self._bring(instances)
        if self._control.stop_asked:
            return Why.STOPPED, instances
        command = self._command(instances)
        self._secondary("Training")
        started = time.monotonic()
        with self._emulator.store.changing(self._job):
            self._document.setdefault("TrainingStartTime", now())
        variables = self._environment(instances)
        image = self._document["AlgorithmSpecification"]["TrainingImage"]
        self._control.interrupted = False
        instances.start(
            image, command, lambda _: variables, GROUP, lambda line: self._see(line, interruption)
        )
        why = watch(
            instances.hosts,
            self._control,
            deadline=deadline,
            interruption=None if interruption is None or interruption.line else started + interruption.after,
            grace=self._emulator.options.stop_grace,
            tick=lambda: _send_all(mirrors),
            interval=self._emulator.options.checkpoint_interval,
        )
        for host in instances.hosts:
            host.join()
        _send_all(mirrors)
        return why, instances

    def _see(self, line: str, interruption: Fault | None) -> None:
        self._metrics.look_at(line)
        if interruption is not None and interruption.line and fnmatchcase(line, interruption.line):
            self._control.interrupt()

    def _interruption(self) -> Fault | None:
        if not self._document.get("EnableManagedSpotTraining"):
            return None
        return self._emulator.faults.strike(("interruption",), name=self._job.name, instance=self._type())

    def _type(self) -> str:
        config = self._document["ResourceConfig"]
        return config.get("InstanceType") or config["InstanceGroups"][0]["InstanceType"]

    def _starting(self) -> None:
        warm = take_pool(self._emulator.store, self._job)
        begin(self._emulator, self._control, self._job.name, self._type(), warm=warm)

    def _bring(self, instances: Instances) -> list[FolderMirror]:
        mirrors: list[FolderMirror] = []
        for number, host in enumerate(instances.hosts):
            training_layout.lay_out(host.ml, self._document, host.name, instances.names)
            try:
                training_layout.bring_channels(
                    self._s3, host.ml, self._document, number, len(instances.hosts)
                )
                mirrors += self._mirror(host)
            except DownloadFailed as error:
                raise JobFailed(f"ClientError: Data download failed:{error}") from error
        return mirrors

    def _mirror(self, host: Host) -> list[FolderMirror]:
        config = self._document.get("CheckpointConfig")
        if not config:
            return []
        folder = training_layout.checkpoint_folder(host.ml, config)
        if folder is None:
            raise JobFailed(
                f"ClientError: this emulator keeps checkpoints below /opt/ml alone, not in {config['LocalPath']}."
            )
        folder.mkdir(parents=True, exist_ok=True)
        mirror = FolderMirror(self._s3, folder, Location.parse(config["S3Uri"]), self._kms_key())
        mirror.restore()
        return [mirror]

    def _command(self, instances: Instances) -> list[str]:
        algorithm = self._document["AlgorithmSpecification"]
        arguments = algorithm.get("ContainerArguments") or []
        if entry := algorithm.get("ContainerEntrypoint"):
            return [*entry, *arguments]
        try:
            return prepare_toolkit(
                self._s3,
                instances.hosts,
                self._document.get("HyperParameters") or {},
                self._emulator.options.state,
            )
        except DownloadFailed as error:
            raise JobFailed(f"AlgorithmError: the source of the job: {error}, exit code: 1") from error

    def _environment(self, instances: Instances) -> dict[str, str]:
        isolated = self._document.get("EnableNetworkIsolation")
        return {
            "TRAINING_JOB_NAME": self._job.name,
            "TRAINING_JOB_ARN": arn_of(self._job),
            **region_environment(self._job.region),
            **({} if isolated else instances.credentials(self._document["RoleArn"])),
            **(self._document.get("Environment") or {}),
        }

    def _failure(self, instances: Instances) -> str | None:
        host = instances.failing_host()
        if host is None or host.outcome is None:
            return None
        return failure_reason(host.outcome, text_of(host.ml / "output" / "failure"))

    def _upload(self, instances: Instances, *, succeeded: bool) -> None:
        if not instances.hosts or not (instances.hosts[0].ml / "model").is_dir():
            return
        self._secondary("Uploading")
        output = self._document["OutputDataConfig"]
        place = Location.parse(output["S3OutputPath"]).below(self._job.name, "output")
        models = [host.ml / "model" for host in instances.hosts]
        outputs = [host.ml / "output" / "data" for host in instances.hosts]
        plain = output.get("CompressionType") == "NONE"
        try:
            self._send(outputs, place, "output", plain=plain, empty=False)
            self._send(models, place, "model", plain=plain, empty=succeeded)
        except UploadFailed as error:
            raise JobFailed(f"ClientError: Artifact upload failed:{error}") from error
        suffix = "model/" if plain else "model.tar.gz"
        with self._emulator.store.changing(self._job):
            self._document["ModelArtifacts"] = {"S3ModelArtifacts": f"{place}/{suffix}"}

    def _send(self, folders: Sequence[Path], place: Location, name: str, *, plain: bool, empty: bool) -> None:
        together = self._folder / f"all-{name}"
        _merge(folders, together)
        if not empty and not any(together.iterdir()):
            return
        if plain:
            send_folder(self._s3, together, place.below(name), self._kms_key())
            return
        archive = self._folder / f"{name}.tar.gz"
        pack(together, archive)
        send_file(self._s3, archive, place.below(archive.name), self._kms_key())

    def _kms_key(self) -> str | None:
        return self._document["OutputDataConfig"].get("KmsKeyId") or None

    def _secondary(self, status: str) -> None:
        moment = now()
        with self._emulator.store.changing(self._job):
            stopping = self._document["TrainingJobStatus"] == "Stopping" and status in _BEFORE_THE_END
            if stopping or self._document["SecondaryStatusTransitions"][-1]["Status"] == status:
                return
            self._document["SecondaryStatus"] = status
            transitions = self._document["SecondaryStatusTransitions"]
            transitions[-1].setdefault("EndTime", moment)
            transitions.append({"Status": status, "StartTime": moment, "StatusMessage": _SAID[status]})

    def _end(self, status: str, secondary: str, reason: str = "") -> None:
        moment = now()
        self._secondary(secondary)
        with self._emulator.store.changing(self._job):
            document = self._document
            document["SecondaryStatusTransitions"][-1]["EndTime"] = moment
            document["SecondaryStatusTransitions"][-1]["StatusMessage"] = reason or _SAID[secondary]
            document["FinalMetricDataList"] = self._metrics.final()
            document["TrainingEndTime"] = moment
            document["DebugRuleEvaluationStatuses"] = None
            if "TrainingStartTime" in document:
                whole = max(1, math.ceil(moment - document["TrainingStartTime"]))
                spot = document.get("EnableManagedSpotTraining")
                document["TrainingTimeInSeconds"] = whole
                document["BillableTimeInSeconds"] = max(1, round(whole * SPOT_SHARE)) if spot else whole
            if reason:
                document["FailureReason"] = reason[:1024]
            document["TrainingJobStatus"] = status


def failure_reason(outcome: Outcome, said: str) -> str:
    """A training job's `FailureReason`, as SageMaker words it.

    Args:
        said: what the container wrote into `/opt/ml/output/failure`.
    """
    if outcome.code is None and outcome.ours:
        return f"InternalServerError: {outcome.problem}"
    if outcome.code is None:
        return f"AlgorithmError: {CANNOT_START.format(problem=outcome.problem)}"
    ending = f", exit code: {outcome.code}"
    return f"AlgorithmError: {said[: 1024 - len('AlgorithmError: ') - len(ending)]}{ending}"


def _send_all(mirrors: Sequence[FolderMirror]) -> None:
    try:
        for mirror in mirrors:
            mirror.send()
    except UploadFailed as error:
        raise JobFailed(f"ClientError: Checkpoint upload failed:{error}") from error


def _merge(folders: Sequence[Path], target: Path) -> None:
    """Bring the files of all hosts together; of two with one name the first host's stays."""
    import os

    target.mkdir(parents=True, exist_ok=True)
    for folder in reversed(folders):
        if folder.is_dir():
            for path in sorted(folder.rglob("*")):
                place = target / path.relative_to(folder)
                if path.is_dir() and not path.is_symlink():
                    place.mkdir(parents=True, exist_ok=True)
                elif path.is_file():
                    place.unlink(missing_ok=True)
                    os.link(path.resolve(), place)
