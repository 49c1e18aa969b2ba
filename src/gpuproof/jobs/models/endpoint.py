"""The model of endpoints: a model that SageMaker serves, which `gpuproof deploy` deploys."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, StrictBool

from gpuproof.jobs import validators
from gpuproof.jobs.local_paths import resolve_path
from gpuproof.jobs.models.instance_job import EMPTY
from gpuproof.jobs.models.job_model import JobModel
from gpuproof.jobs.models.parts import PathText
from gpuproof.jobs.models.sagemaker import BUCKET, ROLE, matching
from gpuproof.jobs.validation_errors import FieldError, FieldProblem
from gpuproof.units import Duration

SERVERLESS = r"^(memory|concurrency)=\d+(,(memory|concurrency)=\d+)?$"
DATA_CAPTURE = r"^s3://[^,]+(,\d{1,3}%?)?$"
TOPIC = r"^arn:aws[a-z-]*:sns:[a-z0-9-]+:\d{12}:.+$"
S3_PREFIX = r"^s3://[^/]+(/.*)?$"

MIN_TTL = Duration(1800)
"""SageMaker deletes no endpoint that is still being created."""
MAX_STARTUP_TIMEOUT = Duration(3600)
"""In SageMaker, as the least of a minute: ContainerStartupHealthCheckTimeoutInSeconds of botocore's model."""

_Count = Annotated[int, Field(strict=True, ge=1)]
_S3 = Annotated[str, matching(S3_PREFIX, "an s3:// address")]
_Topic = Annotated[str, matching(TOPIC, "the ARN of an SNS topic")]
_Role = Annotated[str, matching(ROLE, "the name or the ARN of an IAM role")]


def _ttl(value: Duration) -> Duration:
    if value < MIN_TTL:
        raise ValueError(f"{value} is less than {MIN_TTL}, the shortest life of an endpoint")
    return value


def _startup_timeout(value: Duration) -> Duration:
    if not Duration(60) <= value <= MAX_STARTUP_TIMEOUT:
        raise ValueError(f"{value} is not between {Duration(60)} and {MAX_STARTUP_TIMEOUT}")
    return value


class EndpointJob(JobModel):
    """An endpoint of SageMaker, which `gpuproof deploy` creates or updates. The keys are the flags of that command."""

    foreign_keys: ClassVar[dict[str, str]] = {
        **dict.fromkeys(("entry_point", "source_dir"), "write model, and code for the handler"),
        "max_duration": "write ttl: a schedule deletes the endpoint after that time",
        "hyperparameters": "write environment: a container of an endpoint has variables only",
        "inputs": "remove it: an endpoint gets its data with each request",
        "fallbacks": "remove it: an endpoint has one instance type",
        "idle_timeout": "write ttl: SageMaker does not report how long an endpoint is idle",
        "sagemaker": "write its keys next to kind: role, bucket",
    }

    kind: Literal["endpoint"] = Field(default="endpoint", description="The kind of job.")
    name: Annotated[str, AfterValidator(validators.check_name)] = Field(
        description="Name of the endpoint: up to 63 letters, digits and hyphens.",
        examples=["digits"],
        json_schema_extra={"pattern": validators.JOB_NAME},
    )
    model: PathText = Field(
        description="The model: a folder or an archive here, s3://…/model.tar.gz, or a run or job name.",
        examples=["./digits", "s3://bucket/model.tar.gz", "train-digits"],
        json_schema_extra={"minLength": 1},
    )
    code: PathText | None = Field(
        default=None,
        description="The handler: inference.py, or the folder that becomes code/.",
        examples=["serving/inference.py"],
    )
    instance_type: Annotated[str, AfterValidator(validators.check_instance_type)] | None = Field(
        default=None,
        description="Instance type, with the prefix ml.; required unless serverless.",
        examples=["ml.g5.xlarge"],
        json_schema_extra={"pattern": validators.INSTANCE_TYPE},
    )
    instance_count: _Count | None = Field(
        default=None, description="Number of instances at the start, 1 if not given.", examples=[1]
    )
    min_instances: _Count | None = Field(
        default=None,
        description="With max_instances, the least number of instances, 1 if not given.",
        examples=[1],
    )
    max_instances: _Count | None = Field(
        default=None, description="Scale automatically, up to this number of instances.", examples=[4]
    )
    target_concurrency: Annotated[float, Field(gt=0)] | None = Field(
        default=None,
        description="With max_instances, the requests that each instance works on at the same time, 4 if not given.",
        examples=[4],
    )
    serverless: Annotated[str, matching(SERVERLESS, "of the form memory=4096,concurrency=5")] | None = Field(
        default=None,
        description="No instances and no GPU: memory in MB, and requests at the same time.",
        examples=["memory=4096,concurrency=5"],
        json_schema_extra={"pattern": SERVERLESS},
    )
    server: Literal["gpuproof", "image"] | None = Field(
        default=None,
        description="GPUproof's server in the image, or the image's own; gpuproof if not given.",
        examples=["image"],
    )
    image: str | None = Field(
        default=None, description="Container image; by default that of AWS for the framework."
    )
    framework: Literal["pytorch", "tensorflow"] | None = Field(
        default=None,
        description="The framework of the model; by default found in the model.",
        examples=["pytorch"],
    )
    framework_version: str | None = Field(
        default=None, description="Version of the framework, in quotes.", examples=["2.6"]
    )
    environment: Annotated[
        dict[
            Annotated[str, AfterValidator(validators.check_variable)],
            Annotated[
                str,
                BeforeValidator(validators.number_to_text),
                AfterValidator(validators.check_variable_value),
            ],
        ],
        EMPTY,
    ] = Field(
        default_factory=dict,
        description="Environment variables of the container.",
        json_schema_extra={"propertyNames": {"pattern": validators.VARIABLE_NAME}},
    )
    require_gpu: StrictBool | None = Field(
        default=None,
        description="Whether the deployment fails unless the model is on the GPU; by default if the instance type has one.",
    )
    request: PathText | None = Field(
        default=None,
        description="A file with the body of a request that the model must answer.",
        examples=["sample.json"],
    )
    content_type: str | None = Field(
        default=None,
        description="Content type of request; by its suffix if not given.",
        examples=["text/csv"],
    )
    startup_timeout: Annotated[Duration, AfterValidator(_startup_timeout)] | None = Field(
        default=None,
        description="How long the container may take to become healthy, 1m to 1h; 8m if not given.",
        examples=["15m"],
    )
    ttl: Annotated[Duration, AfterValidator(_ttl)] | None = Field(
        default=None,
        description="A schedule in AWS deletes the endpoint after this time, 30m or more.",
        examples=["2h"],
    )
    schedule_role: _Role | None = Field(
        default=None,
        description="Name or ARN of the role that EventBridge Scheduler assumes for ttl.",
        json_schema_extra={"pattern": ROLE},
    )
    keep_without_schedule: StrictBool = Field(
        default=False, description="Whether to deploy even if the schedule of ttl cannot be created."
    )
    async_output: _S3 | None = Field(
        default=None,
        description="Asynchronous inference, with results below this prefix.",
        examples=["s3://bucket/answers"],
        json_schema_extra={"pattern": S3_PREFIX},
    )
    async_success: _Topic | None = Field(
        default=None,
        description="With async_output, the ARN of an SNS topic for results.",
        json_schema_extra={"pattern": TOPIC},
    )
    async_error: _Topic | None = Field(
        default=None,
        description="With async_output, the ARN of an SNS topic for failed requests.",
        json_schema_extra={"pattern": TOPIC},
    )
    data_capture: Annotated[str, matching(DATA_CAPTURE, "of the form s3://BUCKET/PREFIX,20")] | None = Field(
        default=None,
        description="Record requests and responses below a prefix, or a share of them in percent.",
        examples=["s3://bucket/captured,20"],
        json_schema_extra={"pattern": DATA_CAPTURE},
    )
    network_isolation: StrictBool = Field(default=False, description="Whether the container has no network.")
    role: _Role | None = Field(
        default=None,
        description="Name or ARN of the role of the container; by default the only one that SageMaker may assume.",
        json_schema_extra={"pattern": ROLE},
    )
    bucket: Annotated[str, matching(BUCKET, "the name of an S3 bucket")] | None = Field(
        default=None,
        description="The bucket of the model's files; by default gpuproof-ACCOUNT-REGION.",
        json_schema_extra={"pattern": BUCKET},
    )
    region: Annotated[str, AfterValidator(validators.check_region)] | None = Field(
        default=None, description="AWS region.", examples=["eu-west-1"]
    )
    tags: Annotated[
        dict[
            Annotated[str, AfterValidator(validators.check_tag_key)],
            Annotated[
                str, BeforeValidator(validators.number_to_text), AfterValidator(validators.check_tag_value)
            ],
        ],
        EMPTY,
    ] = Field(default_factory=dict, description="AWS tags.", examples=[{"team": "vision"}])

    def with_absolute_paths(self, folder: Path) -> Self:
        """Returns the job with absolute local paths; a model that is no path here is the name of a run."""
        paths = {key: getattr(self, key) for key in ("code", "request")}
        resolved = {key: resolve_path(path, folder) for key, path in paths.items() if path is not None}
        if _is_path(self.model, folder):
            resolved["model"] = resolve_path(self.model, folder)
        return self.model_copy(update=resolved)

    def missing_files(self) -> list[FieldProblem]:
        """The model if it is a path, the handler and the request, as far as they do not exist."""
        named = {"code": self.code, "request": self.request}
        if not validators.is_s3(self.model) and Path(self.model).is_absolute():
            named["model"] = self.model
        return [
            FieldProblem((key,), f"'{key}'", f": {path} does not exist")
            for key, path in named.items()
            if path is not None and not Path(path).exists()
        ]

    def _check_conflicts(self) -> None:
        if self.serverless is None and self.instance_type is None:
            raise FieldError(("instance_type",), "it is missing, and the endpoint is not serverless")
        if self.serverless is not None and self.instance_type is not None:
            raise FieldError(
                ("serverless",), "a serverless endpoint has no instance_type: remove one of them"
            )
        for key in ("min_instances", "target_concurrency"):
            if getattr(self, key) is not None and self.max_instances is None:
                raise FieldError((key,), "it has no effect without max_instances")
        for key in ("async_success", "async_error"):
            if getattr(self, key) is not None and self.async_output is None:
                raise FieldError((key,), "it has no effect without async_output")


def _is_path(model: str, folder: Path) -> bool:
    """Whether a model is a file or folder here: it exists, or is written as one."""
    if validators.is_s3(model):
        return False
    return os.sep in model or model.startswith(("~", ".")) or (folder / model).exists()
