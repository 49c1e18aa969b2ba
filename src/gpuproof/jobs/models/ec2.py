"""Settings of a job for EC2 only; other backends ignore them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from gpuproof.catalogue.regions import partition_of
from gpuproof.jobs.models.parts import Region
from gpuproof.jobs.models.sagemaker import Bucket, matching, network_ids
from gpuproof.jobs.options import AWS, EC2_ONLY, Option
from gpuproof.jobs.strict_model import StrictModel
from gpuproof.jobs.validation_errors import FieldError

PROFILE = r"^(arn:aws[a-z-]*:iam::\d{12}:(instance-profile|role)/)?[a-zA-Z0-9_+=,.@/-]+$"
AMI = r"^ami-[0-9a-f]{8,17}$"
MAX_VOLUME = 65_536
"""In GiB, for gp3. Source: https://docs.aws.amazon.com/ebs/latest/userguide/general-purpose.html"""

MAX_SUBNETS = 16
MAX_SECURITY_GROUPS = 16
"""Source: https://docs.aws.amazon.com/vpc/latest/userguide/amazon-vpc-limits.html, the highest adjustable quota."""

MAX_RETRIES = 100
"""How often a run may be started again after spot interruptions."""

MAX_REGIONS = 16
"""Number of further regions; each takes about ten requests to plan."""

_REGIONAL = ("ami", "subnets", "security_groups")
"""Settings whose values exist in one region only."""

if TYPE_CHECKING:
    _Subnets = _SecurityGroups = tuple[str, ...]
else:
    _Subnets, _SecurityGroups = network_ids(MAX_SUBNETS), network_ids(MAX_SECURITY_GROUPS)


class EC2Region(StrictModel):
    """A region in which the job's instances may run, with the settings that differ between regions."""

    region: Region = Field(description="Name of the region.", examples=["us-west-2"])
    ami: Annotated[str, matching(AMI, "the id of a machine image")] | None = Field(
        default=None,
        description="Machine image in this region; by default an AWS Deep Learning AMI.",
        examples=["ami-0123456789abcdef0"],
        json_schema_extra={"pattern": AMI},
    )
    subnets: _Subnets = Field(
        default=(),
        description="Subnets in this region; by default those of the default VPC.",
        examples=[["subnet-0123456789abcdef0"]],
    )
    security_groups: _SecurityGroups = Field(
        default=(),
        description="Security groups in this region; by default one without inbound rules, which GPUproof creates.",
        examples=[["sg-0123456789abcdef0"]],
    )


def _read_region(value: Any) -> Any:
    return {"region": value} if isinstance(value, str) else value


def _one_or_more(value: Any) -> Any:
    return (value,) if isinstance(value, str | dict) else () if value is None else value


class EC2Settings(StrictModel):
    """How the job runs on EC2: instance profile, bucket, network, machine image, volume."""

    instance_profile: Annotated[
        Annotated[str, matching(PROFILE, "the name or the ARN of an instance profile")] | None,
        Option("ROLE", flag="--role", group=AWS),
    ] = Field(
        default=None,
        description="Name or ARN of the instance profile, or of its role; by default the one named gpuproof-ec2.",
        examples=["gpuproof-ec2"],
        json_schema_extra={"pattern": PROFILE},
    )
    bucket: Annotated[Bucket | None, Option("NAME", group=AWS)] = Field(
        default=None,
        description="The bucket for code and results; by default gpuproof-ACCOUNT-REGION.",
        examples=["my-training-bucket"],
    )
    subnets: _Subnets = Field(
        default=(),
        description="Subnets of one VPC that are tried in this order; by default those of the default VPC.",
        examples=[["subnet-0123456789abcdef0"]],
    )
    security_groups: _SecurityGroups = Field(
        default=(),
        description="Security groups of the instance; by default one without inbound rules, which GPUproof creates.",
        examples=[["sg-0123456789abcdef0"]],
    )
    ami: Annotated[str, matching(AMI, "the id of a machine image")] | None = Field(
        default=None,
        description="Machine image with an NVIDIA driver and the AWS CLI; by default an AWS Deep Learning AMI.",
        examples=["ami-0123456789abcdef0"],
        json_schema_extra={"pattern": AMI},
    )
    container: bool = Field(
        default=False,
        description="Run in the AWS Deep Learning Container for the framework; by default in the environment of the AMI.",
        examples=[True],
    )
    volume_size: Annotated[int, Field(strict=True, ge=1, le=MAX_VOLUME)] | None = Field(
        default=None,
        description="Size of the root volume in GiB; by default what the image and the inputs need.",
        examples=[200],
    )
    retry_spot: Annotated[int, Field(strict=True, ge=0, le=MAX_RETRIES), Option("N", group=EC2_ONLY)] = Field(
        default=0,
        description="How often a spot run is started again from its checkpoints when EC2 reclaims its instance.",
        examples=[3],
    )
    rebalance: Annotated[Literal["checkpoint", "stop"], Option(group=EC2_ONLY)] = Field(
        default="checkpoint",
        description="When EC2 says that it may take a spot instance back: checkpoint saves more often, stop ends the run.",
        examples=["stop"],
    )
    regions: Annotated[
        tuple[Annotated[EC2Region, BeforeValidator(_read_region)], ...],
        BeforeValidator(_one_or_more),
        Field(max_length=MAX_REGIONS),
        Option("LIST", group=EC2_ONLY, commas=True),
    ] = Field(
        default=(),
        description="Further regions for the instances, tried in this order if all zones of the job's region lack capacity.",
        examples=[["us-west-2", "eu-west-1"]],
    )

    @model_validator(mode="after")
    def _check_regions(self) -> EC2Settings:
        seen: set[str] = set()
        for index, one in enumerate(self.regions):
            if one.region in seen:
                raise FieldError(("regions", index), f"{one.region} is listed twice")
            seen.add(one.region)
            if (first := self.regions[0].region) and partition_of(one.region) != partition_of(first):
                raise FieldError(
                    ("regions", index),
                    f"no account has both {first} and {one.region}: they are separate AWS partitions",
                )
            # An image of the account, or a private network, must not be replaced silently by AWS's or the default one.
            missing = next((key for key in _REGIONAL if getattr(self, key) and not getattr(one, key)), None)
            if missing is not None:
                raise FieldError(
                    ("regions", index),
                    f"ec2.{missing} exists in one region only: name {one.region}'s own, as in "
                    f"{{region: {one.region}, {missing}: …}}",
                )
        return self

    def named_regions(self, names: Sequence[str]) -> list[EC2Region | str]:
        """Further regions by name; those that are listed already with their settings."""
        known = {region.region: region for region in self.regions}
        return [known.get(name, name) for name in names]

    def in_regions(self, home: str) -> tuple[EC2Region, ...]:
        """The regions to try: the job's own, and the further ones. An entry for the job's own region has its settings.

        Args:
            home: the job's own region.
        """
        values = {key: getattr(self, key) for key in _REGIONAL}
        first = next((region for region in self.regions if region.region == home), None)
        if first is not None:
            values = {key: getattr(first, key) or value for key, value in values.items()}
        own = EC2Region(region=home, **values)
        return own, *(region for region in self.regions if region.region != home)
