"""The model of notebook instances: Jupyter on one SageMaker machine, which stops when it is idle."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field, StrictBool

from gpuproof.jobs import validators
from gpuproof.jobs.models.job_model import JobModel
from gpuproof.jobs.models.parts import InstanceType, JobName, Region, Tags
from gpuproof.jobs.models.sagemaker import (
    KMS_KEY,
    MAX_SECURITY_GROUPS,
    MAX_VOLUME,
    NETWORK_ID,
    Bucket,
    Role,
    matching,
)
from gpuproof.jobs.options import Option
from gpuproof.jobs.validation_errors import FieldError
from gpuproof.units import Duration

MIN_VOLUME = 5
"""GB; as all limits, from botocore's model of CreateNotebookInstance."""

PLATFORM = r"^notebook-[a-z0-9]+-v[0-9]+$"
MIN_IDLE_TIMEOUT = Duration(300)
"""A judgement takes some samples, and a user some minutes to read."""

_NetworkId = Annotated[str, matching(NETWORK_ID, "the id of a subnet or a security group")]


def _idle_timeout(value: Duration) -> Duration:
    if value < MIN_IDLE_TIMEOUT:
        raise ValueError(f"{value} is less than {MIN_IDLE_TIMEOUT}, the shortest idle_timeout")
    return value


def _never(value: Any) -> Any:
    return None if value in ("never", "none", "0") else value


def _or_never(schema: dict[str, Any]) -> None:
    schema["anyOf"].append({"const": "never"})


class NotebookJob(JobModel):
    """A notebook instance of SageMaker, which `gpuproof notebook create` creates."""

    foreign_keys: ClassVar[dict[str, str]] = {
        "subnets": "write subnet: a notebook instance is in one subnet",
        "volume_kms_key": "write kms_key",
        "max_duration": "write idle_timeout: a notebook instance stops when it is idle",
        "instance_count": "remove it: a notebook instance is one machine",
        "entry_point": "remove it: a notebook instance runs Jupyter",
    }

    kind: Literal["notebook"] = Field(default="notebook", description="The kind of job.")
    name: Annotated[JobName, Option(flag="NAME")] = Field(
        description="Name of the notebook instance: up to 63 letters, digits and hyphens.",
        examples=["experiments"],
    )
    instance_type: Annotated[InstanceType, Option("TYPE")] = Field(
        description="Instance type of SageMaker.", examples=["ml.g5.xlarge"]
    )
    fallbacks: Annotated[
        tuple[InstanceType, ...], BeforeValidator(validators.as_texts), Option("TYPE", flag="--fallback")
    ] = Field(
        default=(),
        description="Instance types to try in order if `instance_type` has no capacity or no quota.",
        examples=[["ml.g6.xlarge"]],
    )
    idle_timeout: Annotated[
        Annotated[Duration, AfterValidator(_idle_timeout)] | None, BeforeValidator(_never), Option("TIME")
    ] = Field(
        default_factory=lambda: Duration(3600),
        description="The instance stops after this time in which no kernel and no GPU worked, 1h if not given; never: it does not stop.",
        examples=["1h", "30m", "never"],
        json_schema_extra=_or_never,
    )
    volume_size: Annotated[int, Field(strict=True, ge=MIN_VOLUME, le=MAX_VOLUME), Option("GB")] = Field(
        default=50, description="Size of the volume at /home/ec2-user/SageMaker in GB.", examples=[50]
    )
    kms_key: Annotated[
        Annotated[str, matching(KMS_KEY, "the id or the ARN of a KMS key")] | None, Option("KEY")
    ] = Field(default=None, description="KMS key of the volume; without one, AWS encrypts it with its own.")
    root_access: Annotated[StrictBool, Option()] = Field(
        default=False, description="Whether users of the notebook instance may become root."
    )
    internet_access: Annotated[StrictBool, Option()] = Field(
        default=True,
        description="Whether SageMaker gives the instance internet access of its own; without it, `subnet` is required.",
    )
    subnet: Annotated[_NetworkId | None, Option("ID")] = Field(
        default=None, description="Subnet of your VPC.", examples=["subnet-0123456789abcdef0"]
    )
    security_groups: Annotated[
        tuple[_NetworkId, ...],
        BeforeValidator(validators.as_texts),
        Field(max_length=MAX_SECURITY_GROUPS),
        Option("ID", flag="--security-group"),
    ] = Field(default=(), description="Security groups in the VPC.", examples=[["sg-0123456789abcdef0"]])
    platform: Annotated[
        Annotated[str, matching(PLATFORM, "a platform such as notebook-al2023-v1")] | None, Option("NAME")
    ] = Field(
        default=None,
        description="Operating system and JupyterLab of the instance; by default SageMaker's own default.",
        examples=["notebook-al2023-v1"],
    )
    role: Annotated[Role | None, Option("ROLE")] = Field(
        default=None,
        description="Name or ARN of the role of the notebook instance; by default the only one that SageMaker may assume.",
    )
    bucket: Annotated[Bucket | None, Option("NAME")] = Field(
        default=None,
        description="The bucket from which the instance reads GPUproof's agent; by default gpuproof-ACCOUNT-REGION.",
    )
    region: Annotated[Region | None, Option("REGION")] = Field(
        default=None,
        description="AWS region; by default that of your AWS configuration.",
        examples=["eu-west-1"],
    )
    tags: Annotated[Tags, Option("KEY=VALUE", flag="--tag")] = Field(
        default_factory=dict, description="AWS tags.", examples=[{"team": "vision"}]
    )

    @property
    def instance_types(self) -> tuple[str, ...]:
        """The type and its fallbacks, each once."""
        return tuple(dict.fromkeys((self.instance_type, *self.fallbacks)))

    def _check_conflicts(self) -> None:
        if self.security_groups and self.subnet is None:
            raise FieldError(("subnet",), "it is missing, and security_groups are those of its VPC")
        if not self.internet_access and self.subnet is None:
            raise FieldError(
                ("subnet",), "it is missing, and SageMaker requires it with internet_access: false"
            )
