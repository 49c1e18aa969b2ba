"""The model of a machine for interactive work: a job that runs JupyterLab, or nothing, instead of a script."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, StrictBool, field_validator

from gpuproof.jobs import validators
from gpuproof.jobs.file_hints import is_folder
from gpuproof.jobs.local_paths import resolve_path
from gpuproof.jobs.models.instance_job import Channels, InstanceJob
from gpuproof.jobs.models.monitoring import Notify
from gpuproof.jobs.models.parts import EMPTY, JobName
from gpuproof.jobs.models.sagemaker import SageMakerSettings
from gpuproof.jobs.options import JOB, Option
from gpuproof.jobs.validation_errors import FieldProblem
from gpuproof.units import Duration

MACHINE_KEYS = {
    "jupyter": "only a job with kind: machine has it",
    "idle_timeout": "only a job with kind: machine has it",
}
"""Hints for keys of a machine in other jobs."""

DEFAULT_MAX_DURATION = Duration(43_200)
DEFAULT_IDLE_TIMEOUT = Duration(3_600)

_MACHINE = "only for a job with kind: machine"
_NO_SCRIPT = "a machine runs no script; leave out kind: machine for a training job"


class MachineJob(InstanceJob):
    """A machine for interactive work, with or without JupyterLab; it ends when it is idle."""

    foreign_keys: ClassVar[dict[str, str]] = {
        **dict.fromkeys(("entry_point", "arguments", "hyperparameters", "distribution"), _NO_SCRIPT),
        "instance_count": "a machine is one host",
        "image": "a machine has the AWS image of its framework; packages go into requirements.txt",
        "output": "a machine keeps its work folder; write results there",
        "outputs": "a machine keeps its work folder; write results there",
        "checkpoint": "a machine keeps its work folder in the bucket",
        "stall_timeout": "a machine ends by 'idle_timeout'",
        "step_times": "a machine runs no script",
        "if_gpu_unused": "a machine ends by 'idle_timeout'",
        "require_gpu": "a machine has no requirement on the use of its GPU",
        "notify": "a machine runs no script; 'idle_timeout' and 'max_duration' end it",
        "sinks": "a machine runs no script that could be followed",
        "sagemaker": "a machine runs on EC2 or here; on SageMaker, use gpuproof notebook",
    }

    kind: Literal["machine"] = Field(default="machine", description="The kind of job.")
    name: Annotated[JobName, Option("NAME", group=JOB)] = Field(
        default="machine",
        description="Name of the machine: up to 63 letters, digits and hyphens.",
        examples=["workbench"],
    )
    inputs: Annotated[
        Channels,
        EMPTY,
        AfterValidator(validators.max_entries(validators.MAX_CHANNELS, "channels")),
        Option("CHANNEL=SOURCE", flag="--input", group=JOB),
    ] = Field(
        default_factory=dict,
        description="Each channel and its data, at /opt/ml/input/data/CHANNEL: a folder, a file or an s3:// address.",
        examples=[{"training": "./data"}],
        json_schema_extra={
            "propertyNames": {"pattern": validators.CHANNEL_NAME},
            "maxProperties": validators.MAX_CHANNELS,
        },
    )
    jupyter: Annotated[StrictBool, Option(group=_MACHINE)] = Field(
        default=False, description="Whether JupyterLab runs on the machine, and is opened here."
    )
    idle_timeout: Annotated[Duration, Option("TIME", group=_MACHINE)] = Field(
        default=DEFAULT_IDLE_TIMEOUT,
        description="Time without a busy kernel, GPU work or an open shell after which the machine ends.",
        examples=["30m", "2h"],
        json_schema_extra={"default": "1h"},
    )
    max_duration: Annotated[Duration, Option("TIME", group=JOB)] = Field(
        default=DEFAULT_MAX_DURATION,
        description="Time after which the machine ends, whatever it does.",
        examples=["8h"],
        json_schema_extra={"default": "12h"},
    )

    # What other jobs choose, for code that handles all of them.

    @property
    def entry_point(self) -> str:
        """No script."""
        return ""

    @property
    def arguments(self) -> tuple[str, ...]:
        """No script takes any."""
        return ()

    @property
    def hyperparameters(self) -> Mapping[str, Any]:
        """No script takes any."""
        return {}

    @property
    def instance_count(self) -> int:
        """One host."""
        return 1

    @property
    def image(self) -> None:
        """The AWS image of the framework."""

    @property
    def distribution(self) -> None:
        """One process."""

    @property
    def output(self) -> None:
        """Results are in the work folder."""

    @property
    def checkpoint(self) -> None:
        """The work folder is kept where checkpoints are by default."""

    @property
    def stall_timeout(self) -> None:
        """`idle_timeout` instead."""

    @property
    def step_times(self) -> bool:
        """A machine runs no script."""
        return False

    @property
    def notify(self) -> Notify:
        """No notifications."""
        return Notify()

    @property
    def sinks(self) -> tuple[()]:
        """None without a script."""
        return ()

    @property
    def if_gpu_unused(self) -> None:
        """`idle_timeout` instead."""

    @property
    def require_gpu(self) -> bool:
        """People may work without the GPU for a while."""
        return False

    @property
    def sagemaker(self) -> SageMakerSettings:
        """A machine does not run there."""
        return SageMakerSettings()

    def with_absolute_paths(self, folder: Path) -> Self:
        """Returns the job with absolute local paths; relative ones start in `folder`."""
        inputs = {channel: resolve_path(source, folder) for channel, source in self.inputs.items()}
        return self.model_copy(update={"source_dir": resolve_path(self.source_dir, folder), "inputs": inputs})

    def missing_files(self) -> list[FieldProblem]:
        """The source folder, if it does not exist."""
        if is_folder(Path(self.source_dir)):
            return []
        return [
            FieldProblem(("source_dir",), "'source_dir'", f": the folder {self.source_dir} does not exist")
        ]

    @field_validator("idle_timeout", "max_duration")
    @classmethod
    def _within_limits(cls, duration: Duration) -> Duration:
        most = validators.MAX_TRAINING_DURATION
        if 1 <= duration.seconds <= most.seconds:
            return duration
        raise ValueError(f"{duration} is not between 1s and {most}")
