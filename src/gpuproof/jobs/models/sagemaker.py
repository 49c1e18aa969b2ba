"""Settings of a job for SageMaker only; other backends ignore them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, StrictBool, WithJsonSchema, model_validator

from gpuproof.jobs import validators
from gpuproof.jobs.options import AWS, Option
from gpuproof.jobs.strict_model import StrictModel
from gpuproof.jobs.validation_errors import FieldError
from gpuproof.units import Duration

ROLE = r"^(arn:aws[a-z-]*:iam::\d{12}:role/)?[a-zA-Z0-9_+=,.@/-]+$"
BUCKET = r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$"
NETWORK_ID = r"^[-0-9a-zA-Z]{1,32}$"
KMS_KEY = r"^[a-zA-Z0-9:/_-]{1,2048}$"
MAX_SUBNETS = 16
MAX_SECURITY_GROUPS = 5
MAX_METRICS = 40
MAX_REGEX = 500
MAX_KEEP_ALIVE = Duration(21_600)
MAX_VOLUME = 16_384
"""In GB. All limits come from botocore's service model, as in `gpuproof.jobs.validators`."""


def matching(pattern: str, what: str) -> AfterValidator:
    """A validator that accepts texts of a pattern, and names what it expects."""

    def check(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(f"'{text}' is not {what}")
        return text

    return AfterValidator(check)


Role = Annotated[
    str, matching(ROLE, "the name or the ARN of an IAM role"), Field(json_schema_extra={"pattern": ROLE})
]
Bucket = Annotated[
    str, matching(BUCKET, "the name of an S3 bucket"), Field(json_schema_extra={"pattern": BUCKET})
]


def _one_or_more(value: Any) -> Any:
    return (value,) if isinstance(value, str) else () if value is None else value


def _keep_alive(value: Duration) -> Duration:
    if value > MAX_KEEP_ALIVE:
        raise ValueError(f"{value} is more than {MAX_KEEP_ALIVE}, SageMaker's limit for a warm pool")
    return value


def _regex(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"'{text}' is not a regular expression: {error}") from None
    if not 1 <= len(text) <= MAX_REGEX:
        raise ValueError(f"a metric's regular expression has 1 to {MAX_REGEX} characters, not {len(text)}")
    return text


_KmsKey = Annotated[str, matching(KMS_KEY, "the id or the ARN of a KMS key")]
_NetworkId = Annotated[str, matching(NETWORK_ID, "the id of a subnet or a security group")]


def network_ids(most: int) -> Any:
    """One id, or a list with at most `most` ids."""
    one = {"type": "string", "pattern": NETWORK_ID}
    schema = {"anyOf": [one, {"type": "array", "items": one, "maxItems": most}, {"type": "null"}]}
    return Annotated[
        tuple[_NetworkId, ...], BeforeValidator(_one_or_more), Field(max_length=most), WithJsonSchema(schema)
    ]


if TYPE_CHECKING:
    _Subnets = _SecurityGroups = tuple[str, ...]
else:
    _Subnets, _SecurityGroups = network_ids(MAX_SUBNETS), network_ids(MAX_SECURITY_GROUPS)


class SageMakerSettings(StrictModel):
    """How the job runs on SageMaker: role, bucket, network, encryption keys."""

    role: Annotated[Role | None, Option("ROLE", group=AWS)] = Field(
        default=None,
        description="Name or ARN of the job's execution role; by default the only role that SageMaker may assume.",
        examples=["arn:aws:iam::123456789012:role/SageMakerTraining"],
    )
    bucket: Annotated[Bucket | None, Option("NAME", group=AWS)] = Field(
        default=None,
        description="The bucket for code and results; by default gpuproof-ACCOUNT-REGION.",
        examples=["my-training-bucket"],
    )
    subnets: _Subnets = Field(
        default=(),
        description="Subnets of your VPC that the job runs in.",
        examples=[["subnet-0123456789abcdef0"]],
    )
    security_groups: _SecurityGroups = Field(
        default=(), description="Security groups of the job in your VPC.", examples=[["sg-0123456789abcdef0"]]
    )
    volume_kms_key: _KmsKey | None = Field(default=None, description="KMS key for the hosts' volumes.")
    output_kms_key: _KmsKey | None = Field(default=None, description="KMS key for the job's output on S3.")
    network_isolation: StrictBool = Field(
        default=False,
        description="Whether the job runs without network access; requirements.txt is then not installed.",
    )
    encrypt_traffic: StrictBool = Field(
        default=False, description="Whether traffic between hosts is encrypted."
    )
    keep_alive: Annotated[
        Annotated[Duration, AfterValidator(_keep_alive)] | None, Option("TIME", group=AWS)
    ] = Field(
        default=None,
        description="How long the hosts are kept, and billed, after the job so that the next job starts faster (warm pool).",
        examples=["15min"],
    )
    volume_size: Annotated[int, Field(strict=True, ge=1, le=MAX_VOLUME)] | None = Field(
        default=None,
        description="Volume size of each host in GB; instance types with local disks use those instead.",
        examples=[100],
    )
    max_wait: Annotated[Duration | None, Option("TIME", group=AWS)] = Field(
        default=None,
        description="With spot capacity, the maximum time for waiting and running together.",
        examples=["12h"],
    )
    metrics: Annotated[
        dict[str, Annotated[str, AfterValidator(_regex)]],
        AfterValidator(validators.max_entries(MAX_METRICS, "metrics")),
    ] = Field(
        default_factory=dict,
        description="Metrics that CloudWatch extracts from the log, each with a regular expression with one group.",
        examples=[{"loss": "loss=([0-9.]+)"}],
        json_schema_extra={"maxProperties": MAX_METRICS},
    )

    @model_validator(mode="after")
    def _both_or_neither(self) -> SageMakerSettings:
        if bool(self.subnets) != bool(self.security_groups):
            missing, given = (
                ("security_groups", "subnets") if self.subnets else ("subnets", "security_groups")
            )
            raise FieldError((missing,), f"it is missing, and SageMaker requires it together with {given}")
        return self
