"""The keys of every job that runs on an instance, whatever it does there."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, StrictBool

from gpuproof.jobs import validators
from gpuproof.jobs.models.ec2 import EC2Settings
from gpuproof.jobs.models.job_model import JobModel
from gpuproof.jobs.models.parts import EMPTY, Environment, InstanceType, PathOrS3, PathText, Resources, Tags
from gpuproof.jobs.options import AWS, JOB, Option
from gpuproof.jobs.suggestions import did_you_mean

KNOWN_FRAMEWORKS = ("tensorflow", "keras", "pytorch", "jax", "huggingface", "mxnet", "xgboost", "sklearn")

Channels = dict[Annotated[str, AfterValidator(validators.check_channel)], PathOrS3]


class InstanceJob(JobModel):
    """A job that runs on an instance: its source, environment, framework, instance type and tags."""

    source_dir: PathText = Field(
        default=".", description="The folder with the job's code; it is sent with the job.", examples=["."]
    )
    include: Annotated[
        tuple[Annotated[str, AfterValidator(validators.check_include)], ...],
        BeforeValidator(validators.as_texts),
        Option("PATTERN", group=JOB, adds=True),
    ] = Field(
        default=(),
        description="Files of the source folder that are sent although they are ignored or look like secrets; `*` and `**` match.",
        examples=[[".env", "data/*.csv"]],
    )
    respect_gitignore: Annotated[StrictBool, Option(group=JOB)] = Field(
        default=True, description="Whether files that .gitignore lists are left out."
    )
    environment: Annotated[
        Environment,
        AfterValidator(validators.max_entries(validators.MAX_ENTRIES, "variables")),
        Option("NAME=VALUE", flag="--env", group=JOB),
    ] = Field(
        default_factory=dict,
        description="Environment variables of the script.",
        examples=[{"TF_CPP_MIN_LOG_LEVEL": "1"}],
        json_schema_extra={
            "propertyNames": {"pattern": validators.VARIABLE_NAME},
            "maxProperties": validators.MAX_ENTRIES,
        },
    )
    framework: Annotated[Annotated[str, AfterValidator(str.lower)] | None, Option("NAME", group=JOB)] = Field(
        default=None,
        description="The framework that the script uses.",
        examples=["tensorflow", "keras", "pytorch"],
    )
    framework_version: Annotated[str | None, Option("VERSION", group=JOB)] = Field(
        default=None,
        description="Version of the framework; for huggingface, that of Transformers.",
        examples=["2.19", "2.8.0"],
    )
    instance_type: Annotated[
        InstanceType | None,
        Option("TYPE", group=JOB, replaces=("resources.gpu", "resources.gpu_memory")),
    ] = Field(
        default=None,
        description="Instance type, with the prefix ml. for SageMaker; its GPUs are expected to work.",
        examples=["ml.g5.xlarge", "g6.2xlarge"],
    )
    resources: Annotated[Resources, EMPTY] = Field(
        default_factory=Resources,
        description="What the job needs, if instance_type is not given.",
    )
    fallbacks: Annotated[
        tuple[InstanceType, ...],
        BeforeValidator(validators.as_texts),
        Option("TYPE", flag="--fallback", group=AWS),
    ] = Field(
        default=(),
        description="Instance types to try in order if `instance_type` is unavailable: no capacity, or no quota.",
        examples=[["ml.g6.xlarge", "ml.g5.2xlarge"]],
    )
    tags: Annotated[
        Tags,
        AfterValidator(validators.max_entries(validators.MAX_TAGS, "tags")),
        Option("KEY=VALUE", flag="--tag", group=AWS),
    ] = Field(
        default_factory=dict,
        description="AWS tags.",
        examples=[{"project": "cats"}],
        json_schema_extra={"maxProperties": validators.MAX_TAGS},
    )
    ec2: Annotated[EC2Settings, EMPTY] = Field(
        default_factory=EC2Settings,
        description="Settings for EC2 only: instance profile, bucket, network, machine image, volume.",
    )

    @property
    def warnings(self) -> tuple[str, ...]:
        """Unusual values that may be intended, one sentence each."""
        if self.framework is None or self.framework in KNOWN_FRAMEWORKS:
            return ()
        near = did_you_mean(self.framework, KNOWN_FRAMEWORKS)
        return (f"GPUproof does not know the framework '{self.framework}'{near}",)
