"""The type of a job that a file describes: an estimator, a boto3 request, a `gpuproof.yaml`, a template resource."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

from gpuproof.linter.analysis.call import Call
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.values import ABSENT, Value
from gpuproof.linter.jobs.commands import ALL_ARGUMENTS
from gpuproof.linter.source.span import Span, Unit

if TYPE_CHECKING:
    from gpuproof.linter.jobs.commands.follow import LinkEnd
    from gpuproof.linter.jobs.commands.programs import Start

Kind = Literal["training", "processing", "endpoint", "transform", "notebook"]
"""The job kinds of the catalogue that files can describe."""

Source = Literal[
    "sagemaker-v2",
    "sagemaker-v3",
    "boto3",
    "gpuproof",
    "cloudformation",
    "terraform",
    "what-if",
    "command",
    "slurm",
    "remote",
    "cdk",
    "container",
    "docker",
    "compose",
    "kubernetes",
]

CONTAINERS = ("docker", "compose", "kubernetes")
"""Sources that describe a container on a machine of the user's: `docker run`, a service of Compose, a pod."""
INCIDENTAL = ("command", *CONTAINERS)
"""Sources of jobs without an instance type, which many folders contain beside their jobs."""


class ProcessingMount(NamedTuple):
    """An input or output of a processing job.

    Attributes:
        path: the folder in the container.
        address: its S3 address or local folder.
        name: its name.
        span: its position.
    """

    path: Value
    address: Value
    name: Value
    span: Span | None = None


@dataclass(frozen=True, eq=False)
class JobDefinition:
    """One job that a file describes.

    Args:
        api: the class, operation or resource type: `sagemaker.pytorch.PyTorch`, `create_training_job`.
        instance_type: such as `ml.g5.xlarge`.
        instance_count: the number of hosts.
        gpu_count: GPUs of each host, where the description says it without an instance type: Slurm, Batch, ECS.
        framework: `pytorch`, `tensorflow`, `huggingface`, `sklearn`, `xgboost`, `mxnet`; None for any container.
        framework_version, py_version, image: its container. For Hugging Face `framework_version` is that of
            transformers; `arguments` has `pytorch_version` and `tensorflow_version`.
        distribution: the SDK's `distribution`, SDK v3's `distributed` as a mapping with its class's name as the key.
        channels: input channels by name; the value is the address, or the object that contains it.
        channels_known: whether `channels` has all of them.
        inputs, outputs: the mounts of a processing job; None if unknown.
        arguments: everything in the description, by its own keywords (`use_spot_instances`, `max_run`,
            `StoppingCondition`, `direct_internet_access`, ...).
        call: the call that describes it; None outside Python.
        module: the module that describes it; None outside Python.
        model: for an endpoint or a transform, the model or estimator that it serves.
        command: what the job runs instead of an entry point, as a shell text or a list of words.
        script: the module of the entry point, or the one that the command starts; None if it was not found.
        script_found: False if the folder of the entry point is known and does not contain it.
        script_unit: the file of the script, which may not parse; None if it was not found.
        start: how the script is started; None if it is not linked.
        recipe: the Dockerfile that builds the image, if it is certain.
        runs_others: whether the job also runs other programs, so that what the script does not do may be done there.
        link_end: why what the job runs, or a part of it, was not found; None if all of it was.
    """

    kind: Kind
    source: Source
    api: str
    span: Span
    instance_type: Value = ABSENT
    instance_count: Value = ABSENT
    gpu_count: Value = ABSENT
    framework: str | None = None
    framework_version: Value = ABSENT
    py_version: Value = ABSENT
    image: Value = ABSENT
    distribution: Value = ABSENT
    hyperparameters: Value = ABSENT
    environment: Value = ABSENT
    entry_point: Value = ABSENT
    source_dir: Value = ABSENT
    channels: Mapping[str, Value] = field(default_factory=dict[str, Value])
    channels_known: bool = False
    inputs: tuple[ProcessingMount, ...] | None = None
    outputs: tuple[ProcessingMount, ...] | None = None
    container_arguments: Value = ABSENT
    arguments: Mapping[str, Value] = field(default_factory=dict[str, Value])
    call: Call | None = None
    module: Module | None = None
    model: JobDefinition | None = None
    command: Value = ABSENT
    script: Module | None = None
    script_found: bool | None = None
    script_unit: Unit | None = None
    start: Start | None = None
    recipe: Unit | None = None
    runs_others: bool = False
    link_end: LinkEnd | None = None

    def argument(self, name: str) -> Value:
        """The value of one of the keywords of the description.

        It is absent only if no unknown `**kwargs` may contain the keyword.
        """
        if name in self.arguments:
            return self.arguments[name]
        return self.call.argument(name) if self.call is not None else ABSENT

    def where(self, *values: Value) -> Span:
        """The position of the first of these values that has one, or else of the job."""
        return next((value.span for value in values if value.span is not None), self.span)

    @property
    def passes_arguments(self) -> bool:
        """Whether the script gets the arguments that the container passes: hyperparameters, and those of the job."""
        return self.start is None or ALL_ARGUMENTS in self.start.arguments

    @property
    def has_contract(self) -> bool:
        """Whether SageMaker's contract holds for the script: channels, `SM_*` variables, folders that are uploaded."""
        return self.source not in ("what-if", "slurm", "remote", "container", *INCIDENTAL)

    @property
    def script_title(self) -> str:
        """The name of the script for messages: `train.py`."""
        return self.script.title if self.script is not None else str(self.entry_point.text or "the script")

    @property
    def title(self) -> str:
        """The job for messages: `PyTorch(...) in launch.py, line 3`, `job train in gpuproof.yaml, line 1`."""
        unit = self.span.unit
        if self.source == "gpuproof" and unit.kind != "gpuproof":
            return self.api
        if self.source in ("command", "slurm"):
            return f"`{self.api}`"
        if self.source in CONTAINERS:
            return f"{self.api} in {unit.path.rpartition('/')[2]}, line {self.span.line}"
        name = f"{self.api.rpartition('.')[2]}(...)" if self.source.startswith("sagemaker") else self.api
        cell, line, _ = unit.file_position(self.span.line, 1)
        where = f"cell {cell}" if cell is not None else f"line {line}"
        return f"{name} in {unit.path.rpartition('/')[2]}, {where}"
