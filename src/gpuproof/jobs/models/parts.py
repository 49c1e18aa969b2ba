"""The mappings inside a job: resources, checkpoint, if_gpu_unused, processing inputs and outputs."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    StrictBool,
    model_validator,
)

from gpuproof.jobs import validators
from gpuproof.jobs.options import AWS, JOB, Option
from gpuproof.jobs.strict_model import StrictModel
from gpuproof.jobs.validation_errors import FieldError
from gpuproof.units import CountRange, Duration, GpuRequest, MemoryRange, Money

PathText = Annotated[str, BeforeValidator(validators.path_to_text)]
"""A local path; a `pathlib.Path` is accepted too."""

PathOrS3 = Annotated[PathText, AfterValidator(validators.check_path_or_s3)]
"""A local folder or file, or an `s3://` address."""

EMPTY = BeforeValidator(lambda value: {} if value is None else value)
"""A key without a value, as in `hyperparameters:`, is an empty mapping."""


def _pattern(pattern: str) -> Any:
    return Field(json_schema_extra={"pattern": pattern})


JobName = Annotated[str, AfterValidator(validators.check_name), _pattern(validators.JOB_NAME)]
InstanceType = Annotated[
    str, AfterValidator(validators.check_instance_type), _pattern(validators.INSTANCE_TYPE)
]
Region = Annotated[str, AfterValidator(validators.check_region), _pattern(validators.REGION)]
ContentType = Annotated[str, AfterValidator(validators.check_content_type)]
Environment = Annotated[
    dict[
        Annotated[str, AfterValidator(validators.check_variable)],
        Annotated[
            str, BeforeValidator(validators.number_to_text), AfterValidator(validators.check_variable_value)
        ],
    ],
    EMPTY,
]
Tags = Annotated[
    dict[
        Annotated[str, AfterValidator(validators.check_tag_key)],
        Annotated[
            str, BeforeValidator(validators.number_to_text), AfterValidator(validators.check_tag_value)
        ],
    ],
    EMPTY,
]


class Resources(StrictModel):
    """Requirements from which GPUproof chooses an instance type."""

    gpu: Annotated[GpuRequest | None, Option("REQUEST", group=JOB, replaces=("instance_type",))] = Field(
        default=None, description="GPU models and their number per host, as in A10G:1."
    )
    gpu_memory: MemoryRange | None = Field(
        default=None, description="Memory of each GPU; 24GiB+ means 24 GiB or more."
    )
    memory: MemoryRange | None = Field(
        default=None, description="Main memory of each host; 32GiB+ means 32 GiB or more."
    )
    cpus: CountRange | None = Field(default=None, description="vCPUs of each host; 8.. means 8 or more.")
    max_price: Money | None = Field(
        default=None, description="Maximum price of one host, in US dollars per hour."
    )
    region: Annotated[Region | None, Option("REGION", group=AWS)] = Field(
        default=None,
        description="AWS region; by default that of your AWS configuration.",
        examples=["us-east-1", "eu-central-1"],
    )
    spot: Annotated[StrictBool, Option(group=AWS)] = Field(
        default=False, description="Whether to use spot capacity: cheaper, but AWS may interrupt the job."
    )


def _read_checkpoint(value: Any) -> Any:
    value = validators.path_to_text(value)
    if not isinstance(value, str):
        return value
    return {"s3": value} if validators.is_s3(value) else {"path": value}


class Checkpoint(StrictModel):
    """Where checkpoints are kept after the job: mounted at /opt/ml/checkpoints, also on the next attempt."""

    path: PathOrS3 | None = Field(
        default=None, description="A folder on this machine.", examples=["./checkpoints"]
    )
    s3: PathOrS3 | None = Field(
        default=None, description="An S3 prefix.", examples=["s3://bucket/checkpoints"]
    )

    @model_validator(mode="after")
    def _check_locations(self) -> Checkpoint:
        if self.path and validators.is_s3(self.path):
            raise FieldError(("path",), f"'{self.path}' is on S3: write it under the key s3")
        if self.s3 and not validators.is_s3(self.s3):
            raise FieldError(("s3",), f"'{self.s3}' is not on S3: write it under the key path")
        if not self.path and not self.s3:
            raise ValueError("it is empty: write a folder or an s3:// address")
        return self


def _read_action(value: Any) -> Any:
    return {"action": value} if isinstance(value, str) else value


class IfGpuUnused(StrictModel):
    """What happens to a job that has a GPU and does not use it."""

    action: Literal["stop", "fail", "warn"] = Field(
        description="stop ends the job, fail ends it and marks it as failed, warn only prints a warning."
    )
    grace: Duration = Field(
        default=Duration(300),
        description="How long the job may run without using its GPU.",
        json_schema_extra={"default": "5min"},
    )


class ProcessingInput(StrictModel):
    """An input of a processing job: the data, and its path in the job."""

    source: PathOrS3 = Field(description="A local folder or file, or an s3:// address.", examples=["./data"])
    path: Annotated[str, AfterValidator(validators.check_processing_path)] = Field(
        description="Path in the job.", examples=["/opt/ml/processing/input/data"]
    )


class ProcessingOutput(StrictModel):
    """An output of a processing job: its path in the job, and where the files are copied."""

    path: Annotated[str, AfterValidator(validators.check_processing_path)] = Field(
        description="Path in the job that it writes to.", examples=["/opt/ml/processing/output"]
    )
    destination: PathOrS3 | None = Field(
        default=None,
        description="A local folder or an s3:// address; by default the files stay with the run.",
    )


def expand_inputs(value: Any) -> Any:
    """Expands the short forms of a processing job's inputs; the keys stay."""
    return _expand_each(value, "source", "input")


def expand_outputs(value: Any) -> Any:
    """Expands the short forms of a processing job's outputs; the keys stay."""
    return _expand_each(value, "destination", "output")


def _expand_each(value: Any, place: str, folder: str) -> Any:
    if not isinstance(value, dict):
        return value
    return {key: _expand(key, item, place, folder) for key, item in value.items()}


def _expand(key: Any, item: Any, place: str, folder: str) -> Any:
    item = validators.path_to_text(item)
    path = key if "/" in str(key) else str(PurePosixPath(validators.PROCESSING_ROOT, folder, str(key)))
    if item is None or isinstance(item, str):
        return {"path": path, place: item}
    return {"path": path, **item} if isinstance(item, dict) else item


CheckpointField = Annotated[Checkpoint, BeforeValidator(_read_checkpoint)]
IfGpuUnusedField = Annotated[IfGpuUnused, BeforeValidator(_read_action)]
