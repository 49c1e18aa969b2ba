"""The model of endpoints: a model that SageMaker serves, which `gpuproof deploy` deploys."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, StrictBool

from gpuproof.jobs import validators
from gpuproof.jobs.models.parts import ContentType, InstanceType, JobName, PathText, Tags
from gpuproof.jobs.models.sagemaker import Role, matching
from gpuproof.jobs.models.served_model import CONTAINER, ServedModelJob
from gpuproof.jobs.options import Option
from gpuproof.jobs.validation_errors import FieldError
from gpuproof.units import Duration, ParsedValue, UnitError

TOPIC = r"^arn:aws[a-z-]*:sns:[a-z0-9-]+:\d{12}:.+$"
S3_PREFIX = r"^s3://[^/]+(/.*)?$"

MIN_TTL = Duration(1800)
"""SageMaker deletes no endpoint that is still being created."""
MAX_STARTUP_TIMEOUT = Duration(3600)
"""In SageMaker, as the least of a minute: ContainerStartupHealthCheckTimeoutInSeconds of botocore's model."""

_MEMORY_MB = (1024, 2048, 3072, 4096, 5120, 6144)
"""Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ProductionVariantServerlessConfig.html"""

_INSTANCES, _ENDPOINT = "instances", "endpoint"


@dataclass(frozen=True)
class Serverless(ParsedValue):
    """A serverless variant.

    Args:
        memory_mb: 1024 to 6144 in steps of 1024.
        concurrency: largest number of requests at the same time.
    """

    memory_mb: int
    concurrency: int

    _schema: ClassVar[dict[str, Any]] = {
        "type": "string",
        "pattern": r"^(memory|concurrency)=\d+(,(memory|concurrency)=\d+)?$",
    }

    @classmethod
    def parse(cls, text: object) -> Self:
        """Parses `memory=4096,concurrency=5`; raises UnitError."""
        if isinstance(text, cls):
            return text
        remedy = "write, for example, memory=4096,concurrency=5"
        words = {name: value for name, _, value in (word.partition("=") for word in str(text).split(","))}
        memory, concurrency = words.pop("memory", "2048"), words.pop("concurrency", "5")
        if words or not memory.isdecimal() or not concurrency.isdecimal():
            raise UnitError(f"'{text}' does not describe a serverless endpoint", remedy)
        if int(memory) not in _MEMORY_MB or not 1 <= int(concurrency) <= 200:
            sizes = ", ".join(map(str, _MEMORY_MB))
            raise UnitError(
                f"serverless endpoints have {sizes} MB of memory and a concurrency of 1 to 200, not {text}",
                remedy,
            )
        return cls(int(memory), int(concurrency))

    def __str__(self) -> str:
        return f"memory={self.memory_mb},concurrency={self.concurrency}"


@dataclass(frozen=True)
class DataCapture(ParsedValue):
    """Recording of requests and responses.

    Args:
        address: the `s3://` prefix of the records.
        percent: share of the requests, 1 to 100.
    """

    address: str
    percent: int = 100

    _schema: ClassVar[dict[str, Any]] = {"type": "string", "pattern": r"^s3://[^,]+(,\d{1,3}%?)?$"}

    @classmethod
    def parse(cls, text: object) -> Self:
        """Parses `s3://bucket/prefix` or `s3://bucket/prefix,20`; raises UnitError."""
        if isinstance(text, cls):
            return text
        address, _, percent = str(text).partition(",")
        number = percent.removesuffix("%") or "100"
        if not re.match(r"s3://[^,]", address) or not number.isdecimal() or not 1 <= int(number) <= 100:
            raise UnitError(
                f"'{text}' is not an S3 address with a percentage",
                "write, for example, s3://BUCKET/PREFIX,20",
            )
        return cls(address, int(number))

    def __str__(self) -> str:
        return f"{self.address},{self.percent}"


@dataclass(frozen=True)
class Scaling:
    """Automatic scaling by concurrency.

    Args:
        minimum: number of instances.
        maximum: largest number of instances.
        concurrency: requests that each instance should work on at the same time.
    """

    minimum: int
    maximum: int
    concurrency: float


_Count = Annotated[int, Field(strict=True, ge=1)]
_S3 = Annotated[str, matching(S3_PREFIX, "an s3:// address")]
_Topic = Annotated[str, matching(TOPIC, "the ARN of an SNS topic")]


def _ttl(value: Duration) -> Duration:
    if value < MIN_TTL:
        raise ValueError(f"{value} is less than {MIN_TTL}, the shortest life of an endpoint")
    return value


def _startup_timeout(value: Duration) -> Duration:
    if not Duration(60) <= value <= MAX_STARTUP_TIMEOUT:
        raise ValueError(f"{value} is not between {Duration(60)} and {MAX_STARTUP_TIMEOUT}")
    return value


def _derive_name(known: dict[str, Any]) -> str:
    return validators.derive_job_name(PurePosixPath(str(known.get("model", ""))).name.partition(".")[0])


class EndpointJob(ServedModelJob):
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
    name: Annotated[JobName, Option("NAME")] = Field(
        default_factory=_derive_name,
        description="Name of the endpoint: up to 63 letters, digits and hyphens; by default that of the model's job or file.",
        examples=["digits"],
    )
    instance_type: Annotated[
        InstanceType | None, Option("TYPE", group=_INSTANCES, replaces=("serverless",))
    ] = Field(
        default=None,
        description="Instance type of SageMaker; required unless serverless.",
        examples=["ml.g5.xlarge"],
    )
    instance_count: Annotated[_Count, Option("N", group=_INSTANCES)] = Field(
        default=1, description="Number of instances at the start.", examples=[1]
    )
    min_instances: Annotated[_Count | None, Option("N", group=_INSTANCES)] = Field(
        default=None,
        description="With `max_instances`, the minimum number of instances; 1 if not given.",
        examples=[1],
    )
    max_instances: Annotated[_Count | None, Option("N", group=_INSTANCES)] = Field(
        default=None, description="Scale automatically, up to this number of instances.", examples=[4]
    )
    target_concurrency: Annotated[Annotated[float, Field(gt=0)] | None, Option("N", group=_INSTANCES)] = (
        Field(
            default=None,
            description="With `max_instances`, the requests that each instance works on at the same time; 4 if not given.",
            examples=[4],
        )
    )
    serverless: Annotated[
        Serverless | None, Option("SIZE", group=_INSTANCES, replaces=("instance_type",))
    ] = Field(
        default=None,
        description="No instances and no GPU: memory in MB, and requests at the same time.",
        examples=["memory=4096,concurrency=5"],
    )
    require_gpu: Annotated[StrictBool | None, Option(group=CONTAINER)] = Field(
        default=None,
        description="Whether the deployment fails unless the model is on the GPU; by default if the instance type has one.",
    )
    request: Annotated[PathText | None, Option("FILE", group=CONTAINER)] = Field(
        default=None,
        description="A file with the body of a request that the model must answer.",
        examples=["sample.json"],
    )
    content_type: Annotated[ContentType | None, Option("TYPE", group=CONTAINER)] = Field(
        default=None,
        description="Content type of `request`; by its suffix if not given.",
        examples=["text/csv"],
    )
    startup_timeout: Annotated[
        Annotated[Duration, AfterValidator(_startup_timeout)] | None, Option("TIME", group=CONTAINER)
    ] = Field(
        default=None,
        description="How long the container may take to become healthy, 1m to 1h; 8m if not given.",
        examples=["15m"],
    )
    network_isolation: Annotated[StrictBool, Option(group=CONTAINER)] = Field(
        default=False, description="Whether the container has no network."
    )
    ttl: Annotated[Annotated[Duration, AfterValidator(_ttl)] | None, Option("TIME", group=_ENDPOINT)] = Field(
        default=None,
        description="A schedule in AWS deletes the endpoint after this time, 30m or more.",
        examples=["2h"],
    )
    schedule_role: Annotated[Role | None, Option("ROLE", group=_ENDPOINT)] = Field(
        default=None,
        description="Name or ARN of the role that EventBridge Scheduler assumes for `ttl`; by default GPUPROOF_SCHEDULE_ROLE_ARN, "
        "else gpuproof-scheduler.",
    )
    keep_without_schedule: Annotated[StrictBool, Option(group=_ENDPOINT)] = Field(
        default=False, description="Whether to deploy even if the schedule of `ttl` cannot be created."
    )
    async_output: Annotated[_S3 | None, Option("S3", flag="--async", group=_ENDPOINT)] = Field(
        default=None,
        description="Asynchronous inference, with results below this prefix in S3.",
        examples=["s3://bucket/answers"],
        json_schema_extra={"pattern": S3_PREFIX},
    )
    async_success: Annotated[_Topic | None, Option("ARN", group=_ENDPOINT)] = Field(
        default=None,
        description="With `async_output`, the ARN of an SNS topic for results.",
        json_schema_extra={"pattern": TOPIC},
    )
    async_error: Annotated[_Topic | None, Option("ARN", group=_ENDPOINT)] = Field(
        default=None,
        description="With `async_output`, the ARN of an SNS topic for failed requests.",
        json_schema_extra={"pattern": TOPIC},
    )
    data_capture: Annotated[DataCapture | None, Option("S3[,PERCENT]", group=_ENDPOINT)] = Field(
        default=None,
        description="Record requests and responses below a prefix in S3, or a share of them in percent.",
        examples=["s3://bucket/captured,20"],
    )
    tags: Annotated[Tags, Option("KEY=VALUE", flag="--tag", group=_ENDPOINT)] = Field(
        default_factory=dict,
        description="AWS tags of everything that is created.",
        examples=[{"team": "vision"}],
    )

    @property
    def scaling(self) -> Scaling | None:
        """Automatic scaling, if `max_instances` is given."""
        if self.max_instances is None:
            return None
        return Scaling(self.min_instances or 1, self.max_instances, self.target_concurrency or 4.0)

    def _path_keys(self) -> tuple[str, ...]:
        return ("code", "request")

    def _check_conflicts(self) -> None:
        if self.serverless is not None:
            self._check_serverless()
        elif self.instance_type is None:
            raise FieldError(
                ("instance_type",),
                "it is missing, and the endpoint is not serverless: write, for example, ml.g5.xlarge "
                "(`gpuproof gpus --on sagemaker` lists types)",
            )
        for key in ("min_instances", "target_concurrency"):
            if getattr(self, key) is not None and self.max_instances is None:
                raise FieldError((key,), "it has no effect without max_instances")
        scaling = self.scaling
        if scaling is not None and not scaling.minimum <= self.instance_count <= scaling.maximum:
            raise FieldError(
                ("max_instances",),
                f"at least {scaling.minimum}, at the start {self.instance_count} and at most {scaling.maximum} instances "
                "are not in ascending order",
            )
        for key in ("async_success", "async_error"):
            if getattr(self, key) is not None and self.async_output is None:
                raise FieldError((key,), "it has no effect without async_output")

    def _check_serverless(self) -> None:
        """Source: https://docs.aws.amazon.com/sagemaker/latest/dg/serverless-endpoints.html"""
        given = {
            "instance_type": self.instance_type is not None,
            "instance_count": self.instance_count != 1,
            "max_instances": self.max_instances is not None,
            "async_output": self.async_output is not None,
            "data_capture": self.data_capture is not None,
            "network_isolation": self.network_isolation,
            "require_gpu": self.require_gpu is True,
        }
        if keys := [key for key, is_given in given.items() if is_given]:
            raise FieldError(
                ("serverless",),
                f"a serverless endpoint, which runs on CPUs of SageMaker's choice, has no {' and no '.join(keys)}: "
                "remove one of them",
            )
