"""The models of the jobs that `gpuproof run` runs, with SageMaker's keys, for every backend."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, StrictBool, field_validator

from gpuproof.agent.sinks.main import NAMES
from gpuproof.catalogue.regions import partition_of
from gpuproof.jobs import validators
from gpuproof.jobs.distribution.launchers import LAUNCHERS
from gpuproof.jobs.distribution.spec import DistributionField
from gpuproof.jobs.file_hints import is_file, is_folder, suggest_file
from gpuproof.jobs.local_paths import resolve_path
from gpuproof.jobs.models.instance_job import KNOWN_FRAMEWORKS, Channels, InstanceJob
from gpuproof.jobs.models.machine import MACHINE_KEYS, MachineJob
from gpuproof.jobs.models.monitoring import Notify, Sinks
from gpuproof.jobs.models.parts import (
    EMPTY,
    CheckpointField,
    IfGpuUnusedField,
    JobName,
    PathOrS3,
    PathText,
    ProcessingInput,
    ProcessingOutput,
    expand_inputs,
    expand_outputs,
)
from gpuproof.jobs.models.sagemaker import SageMakerSettings
from gpuproof.jobs.options import AWS, JOB, Option
from gpuproof.jobs.validation_errors import FieldError, FieldProblem
from gpuproof.units import Duration

_FEW_MOUNTS = AfterValidator(validators.max_entries(validators.MAX_PROCESSING_MOUNTS, "mounts"))

_Hyperparameters = dict[
    Annotated[str, AfterValidator(validators.check_hyperparameter_name)],
    Annotated[Any, AfterValidator(validators.check_hyperparameter)],
]


class _ScriptJob(InstanceJob):
    """The keys of the jobs that run a script."""

    max_allowed_duration: ClassVar[Duration]

    entry_point: Annotated[PathText, AfterValidator(validators.check_entry_point)] = Field(
        description="The script to run, relative to source_dir.", examples=["train.py"]
    )
    name: Annotated[JobName, Option("NAME", group=JOB)] = Field(
        default_factory=lambda known: validators.derive_job_name(known.get("entry_point", "")),
        description="Name of the job: up to 63 letters, digits and hyphens.",
        examples=["train-cifar"],
    )
    arguments: Annotated[
        tuple[str, ...], BeforeValidator(validators.as_texts), Option(flag="the arguments after --")
    ] = Field(default=(), description="Arguments of the script, passed after any hyperparameters.")
    image: Annotated[str | None, Option("URI", group=AWS)] = Field(
        default=None,
        description="Container image to use instead of the AWS Deep Learning Container for the framework.",
    )
    instance_count: Annotated[int, Field(strict=True, ge=1), Option("N", group=JOB)] = Field(
        default=1, description="Number of hosts, algo-1 to algo-n.", examples=[1, 2]
    )
    max_duration: Annotated[Duration | None, Option("TIME", group=JOB)] = Field(
        default=None,
        description="Time after which the job is stopped.",
        examples=["8h", "90m", "1h30m", 3600],
    )
    stall_timeout: Annotated[Duration | None, Option("TIME", group=JOB)] = Field(
        default=None,
        description="Time without progress on any GPU or in any log after which the job is stopped; by default never.",
        examples=["20m"],
    )
    step_times: Annotated[StrictBool, Option(group=JOB)] = Field(
        default=True,
        description="Whether to measure where the time of training steps goes, by hooks in the script's frameworks.",
    )
    sinks: Annotated[
        Sinks, BeforeValidator(validators.as_texts), Option("NAME", flag="--sink", group=JOB)
    ] = Field(
        default=(),
        description=f"Where GPU metrics and the verdict's numbers go: {', '.join(NAMES)}; see docs/monitoring.md.",
        examples=[["wandb", "prometheus=/var/lib/node_exporter"]],
    )
    notify: Annotated[Notify, EMPTY] = Field(
        default_factory=Notify,
        description="Who is notified from the host if the job stalls, leaves a GPU unused, fails, or costs too much.",
    )
    require_gpu: Annotated[StrictBool | None, Option(group=JOB)] = Field(
        default=None,
        description="Whether it is an error (exit code 4) that the job has no GPU or does not use it; by default if it requests one.",
    )
    if_gpu_unused: IfGpuUnusedField | None = Field(
        default=None,
        description="What happens to a job that has a GPU and does not use it; the default grace is 5min.",
    )
    sagemaker: Annotated[SageMakerSettings, EMPTY] = Field(
        default_factory=SageMakerSettings,
        description="Settings for SageMaker only: role, bucket, network, keys, warm pool, metrics.",
    )

    @field_validator("max_duration")
    @classmethod
    def _within_limits(cls, duration: Duration | None) -> Duration | None:
        if duration is None or 1 <= duration.seconds <= cls.max_allowed_duration.seconds:
            return duration
        raise ValueError(
            f"{duration} is not between 1s and {cls.max_allowed_duration}, SageMaker's limit for a job of this kind"
        )

    @field_validator("stall_timeout")
    @classmethod
    def _not_zero(cls, duration: Duration | None) -> Duration | None:
        if duration is None or duration.seconds >= 1:
            return duration
        raise ValueError("it must be at least 1s; leave it out to let the job wait forever")

    def missing_files(self) -> list[FieldProblem]:
        """The source folder or the script, if it does not exist. Inputs are checked later, because flags may replace them."""
        source = Path(self.source_dir)
        if not is_folder(source):
            return [FieldProblem(("source_dir",), "'source_dir'", f": the folder {source} does not exist")]
        script = source / self.entry_point
        if is_file(script):
            return []
        rest = f": there is no {self.entry_point} in {source}{suggest_file(script)}"
        return [FieldProblem(("entry_point",), "'entry_point'", rest)]

    def _check_conflicts(self) -> None:
        home, others = self.resources.region, self.ec2.regions
        if home is not None and others and partition_of(home) != partition_of(others[0].region):
            raise FieldError(
                ("ec2", "regions"),
                f"no account has both {home} and {others[0].region}: they are separate AWS partitions",
            )


class TrainingJob(_ScriptJob):
    """A training script: hyperparameters and input channels in, a model and checkpoints out."""

    foreign_keys: ClassVar[dict[str, str]] = {"outputs": "a training job has one 'output'", **MACHINE_KEYS}
    max_allowed_duration: ClassVar[Duration] = validators.MAX_TRAINING_DURATION

    kind: Literal["training"] = Field(default="training", description="The kind of job.")
    hyperparameters: Annotated[
        _Hyperparameters,
        EMPTY,
        AfterValidator(validators.max_entries(validators.MAX_ENTRIES, "entries")),
        Option("NAME=VALUE", flag="--hyperparameter", short="-p", group=JOB),
    ] = Field(
        default_factory=dict,
        description="Passed to the script as --name value: text, numbers, true or false, null, lists, mappings.",
        examples=[{"epochs": 5, "learning-rate": 0.001}],
        json_schema_extra={
            "propertyNames": {"minLength": 1, "maxLength": validators.MAX_HYPERPARAMETER_NAME},
            "maxProperties": validators.MAX_ENTRIES,
        },
    )
    inputs: Annotated[
        Channels,
        EMPTY,
        AfterValidator(validators.max_entries(validators.MAX_CHANNELS, "channels")),
        Option("CHANNEL=SOURCE", flag="--input", group=JOB),
    ] = Field(
        default_factory=dict,
        description="Each channel and its data: a folder, a file or an s3:// address.",
        examples=[{"training": "./data", "validation": "s3://bucket/validation"}],
        json_schema_extra={
            "propertyNames": {"pattern": validators.CHANNEL_NAME},
            "maxProperties": validators.MAX_CHANNELS,
        },
    )
    output: PathOrS3 | None = Field(
        default=None,
        description="Where the artifacts go: a folder or an s3:// address; by default they stay with the run.",
        examples=["./artifacts", "s3://bucket/artifacts"],
    )
    distribution: Annotated[DistributionField | None, Option("LAUNCHER", group=JOB)] = Field(
        default=None,
        description=f"How each host starts the script: {', '.join(LAUNCHERS)}; in a file, also a mapping with launcher and its options.",
        examples=["torchrun", {"launcher": "mpi", "processes_per_host": 8}],
    )
    checkpoint: CheckpointField | None = Field(
        default=None,
        description="Where checkpoints are kept after the job: a folder, an s3:// address, or both as path and s3.",
    )

    def with_absolute_paths(self, folder: Path) -> Self:
        """Returns the job with absolute local paths; relative ones start in `folder`."""
        changes: dict[str, Any] = {
            "source_dir": resolve_path(self.source_dir, folder),
            "inputs": {channel: resolve_path(source, folder) for channel, source in self.inputs.items()},
        }
        if self.output:
            changes["output"] = resolve_path(self.output, folder)
        if self.checkpoint and self.checkpoint.path:
            path = resolve_path(self.checkpoint.path, folder)
            changes["checkpoint"] = self.checkpoint.model_copy(update={"path": path})
        return self.model_copy(update=changes)

    def _check_conflicts(self) -> None:
        super()._check_conflicts()
        if self.distribution is not None:
            _check_distribution(self, self.distribution.launcher)


class ProcessingJob(_ScriptJob):
    """A processing script, which prepares or evaluates data: folders in, folders out."""

    foreign_keys: ClassVar[dict[str, str]] = {
        "hyperparameters": "a processing job has no hyperparameters: use 'arguments', or kind: training",
        "output": "a processing job has 'outputs', as in outputs: {/opt/ml/processing/output: ./out}",
        "distribution": "only training jobs are distributed",
        "checkpoint": "only training jobs keep checkpoints",
        **MACHINE_KEYS,
    }
    max_allowed_duration: ClassVar[Duration] = validators.MAX_PROCESSING_DURATION

    kind: Literal["processing"] = Field(default="processing", description="The kind of job.")
    inputs: Annotated[
        dict[str, ProcessingInput],
        BeforeValidator(expand_inputs),
        EMPTY,
        _FEW_MOUNTS,
        Option("CHANNEL=SOURCE", flag="--input", group=JOB),
    ] = Field(
        default_factory=dict,
        description="Each input: its path in the job, or a name, and the folder, file or s3:// address of the data.",
        examples=[{"/opt/ml/processing/input": "./data"}],
        json_schema_extra={"maxProperties": validators.MAX_PROCESSING_MOUNTS},
    )
    outputs: Annotated[dict[str, ProcessingOutput], BeforeValidator(expand_outputs), EMPTY, _FEW_MOUNTS] = (
        Field(
            default_factory=dict,
            description="Each output: its path in the job, or a name, and where its files go.",
            examples=[{"/opt/ml/processing/output": "./out"}],
            json_schema_extra={"maxProperties": validators.MAX_PROCESSING_MOUNTS},
        )
    )

    def with_absolute_paths(self, folder: Path) -> Self:
        """Returns the job with absolute local paths; relative ones start in `folder`."""
        inputs = {
            key: mount.model_copy(update={"source": resolve_path(mount.source, folder)})
            for key, mount in self.inputs.items()
        }
        outputs = {
            key: outlet.model_copy(update={"destination": resolve_path(outlet.destination, folder)})
            if outlet.destination
            else outlet
            for key, outlet in self.outputs.items()
        }
        source = resolve_path(self.source_dir, folder)
        return self.model_copy(update={"source_dir": source, "inputs": inputs, "outputs": outputs})

    def _check_conflicts(self) -> None:
        super()._check_conflicts()
        mounts = [(("inputs", key), mount.path) for key, mount in self.inputs.items()]
        mounts += [(("outputs", key), outlet.path) for key, outlet in self.outputs.items()]
        for (_, first), (path, second) in combinations(mounts, 2):
            if _overlap(PurePosixPath(first), PurePosixPath(second)):
                raise FieldError(path, f"{second} and {first} overlap: give each its own folder")


SageMakerJob = TrainingJob | ProcessingJob
"""A job that runs a script, as SageMaker's jobs do."""

Job = SageMakerJob | MachineJob
"""A job that `gpuproof run` runs."""


def _check_distribution(job: TrainingJob, launcher: str) -> None:
    """Raises FieldError if the launcher cannot start the job."""
    kind, key = LAUNCHERS[launcher], ("distribution",)
    if job.instance_count > 1 and not kind.several_hosts:
        raise FieldError(
            key,
            f"{launcher} works on one host, and instance_count is {job.instance_count}: write multi_worker_mirrored",
        )
    if job.framework in KNOWN_FRAMEWORKS and kind.frameworks and job.framework not in kind.frameworks:
        raise FieldError(key, f"{launcher} cannot start a script of framework {job.framework}")
    if kind.only_python and not job.entry_point.endswith(".py"):
        raise FieldError(
            key, f"{launcher} starts Python scripts only, and the entry point is {job.entry_point}"
        )


def _overlap(one: PurePosixPath, other: PurePosixPath) -> bool:
    return one.is_relative_to(other) or other.is_relative_to(one)
