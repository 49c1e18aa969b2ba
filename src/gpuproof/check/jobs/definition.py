"""A job as some file describes it: an estimator, a request to boto3, a `gpuproof.yaml`, a resource of a template."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

from gpuproof.check.analysis.values import ABSENT, Value
from gpuproof.check.source.span import Span

if TYPE_CHECKING:
    from gpuproof.check.analysis.call import Call
    from gpuproof.check.analysis.module import Module

Kind = Literal["training", "processing", "endpoint", "transform", "notebook"]
"""The catalogue's job kinds, as far as files describe them."""

Source = Literal[
    "sagemaker-v2", "sagemaker-v3", "boto3", "gpuproof", "cloudformation", "terraform", "what-if"
]


class ProcessingMount(NamedTuple):
    """An input or output of a processing job.

    Attributes:
        path: the folder in the container.
        address: the S3 address or the local folder behind it.
        name: what it is called.
        span: where it is written.
    """

    path: Value
    address: Value
    name: Value
    span: Span | None = None


@dataclass(frozen=True, eq=False)
class JobDefinition:
    """One job.

    Args:
        kind: what SageMaker is to run.
        source: what kind of text describes it.
        api: the class, operation or resource type: `sagemaker.pytorch.PyTorch`, `create_training_job`.
        span: where it is described.
        instance_type: `ml.g5.xlarge`.
        instance_count: how many hosts.
        framework: `pytorch`, `tensorflow`, `huggingface`, `sklearn`, `xgboost`, `mxnet`; None for any container.
        framework_version, py_version, image: what it runs in. For Hugging Face `framework_version` is that of
            transformers; `arguments` has `pytorch_version` and `tensorflow_version`.
        distribution: the SDK's `distribution`, SDK v3's `distributed` as a mapping with its class's name as the key.
        hyperparameters: what the script gets on its command line.
        environment: environment variables.
        entry_point, source_dir: the script.
        channels: input channels, by name; their value is the address or the object that says it.
        channels_known: whether `channels` are all of them.
        inputs, outputs: the mounts of a processing job; None where nobody can tell.
        container_arguments: the command line of a processing job.
        arguments: everything that the description says, by its own keywords (`use_spot_instances`, `max_run`,
            `StoppingCondition`, `direct_internet_access`, ...).
        call: the call that describes it, in Python.
        module: the module that describes it; None outside Python.
        model: for an endpoint or a transform, the model or estimator that it serves.
        script: the entry point, found and read; None without one.
        script_found: False where an entry point is named, its folder is known, and it is not there.
    """

    kind: Kind
    source: Source
    api: str
    span: Span
    instance_type: Value = ABSENT
    instance_count: Value = ABSENT
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
    script: Module | None = None
    script_found: bool | None = None

    def argument(self, name: str) -> Value:
        """What the description says for one of its own keywords; absent or unknown where it says nothing.

        Absence is certain only where no unknown `**kwargs` may carry the keyword.
        """
        if name in self.arguments:
            return self.arguments[name]
        return self.call.argument(name) if self.call is not None else ABSENT

    def where(self, *values: Value) -> Span:
        """The place of the first of these values that is written somewhere, else the job's own."""
        return next((value.span for value in values if value.span is not None), self.span)

    @property
    def script_title(self) -> str:
        """The script's name for a message: `train.py`."""
        return self.script.title if self.script is not None else str(self.entry_point.text or "the script")

    @property
    def title(self) -> str:
        """The job for a message: `PyTorch(...) in launch.py, line 3`, `job train in gpuproof.yaml, line 1`."""
        unit = self.span.unit
        if self.source == "gpuproof" and unit.kind != "gpuproof":
            return self.api
        name = f"{self.api.rpartition('.')[2]}(...)" if self.source.startswith("sagemaker") else self.api
        cell, line, _ = unit.file_position(self.span.line, 1)
        where = f"cell {cell}" if cell is not None else f"line {line}"
        return f"{name} in {unit.path.rpartition('/')[2]}, {where}"
