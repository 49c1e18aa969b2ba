"""Settings of a job for EC2 only; other backends ignore them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from gpuproof.jobs.spec_parts import StrictModel
from gpuproof.jobs.spec_sagemaker import BUCKET, matching, network_ids

PROFILE = r"^(arn:aws[a-z-]*:iam::\d{12}:(instance-profile|role)/)?[a-zA-Z0-9_+=,.@/-]+$"
AMI = r"^ami-[0-9a-f]{8,17}$"
MAX_VOLUME = 65_536
"""In GiB, for gp3. Source: https://docs.aws.amazon.com/ebs/latest/userguide/general-purpose.html"""

MAX_SUBNETS = 16
MAX_SECURITY_GROUPS = 16
"""Source: https://docs.aws.amazon.com/vpc/latest/userguide/amazon-vpc-limits.html, the highest adjustable quota."""

MAX_RETRIES = 100
"""How often a run may be started again after spot interruptions."""

if TYPE_CHECKING:
    _Subnets = _SecurityGroups = tuple[str, ...]
else:
    _Subnets, _SecurityGroups = network_ids(MAX_SUBNETS), network_ids(MAX_SECURITY_GROUPS)


class EC2Settings(StrictModel):
    """How the job runs on EC2: instance profile, bucket, network, machine image, volume."""

    instance_profile: (
        Annotated[str, matching(PROFILE, "the name or the ARN of an instance profile")] | None
    ) = Field(
        default=None,
        description="Name or ARN of the instance profile, or of its role; by default the one named gpuproof-ec2.",
        examples=["gpuproof-ec2"],
        json_schema_extra={"pattern": PROFILE},
    )
    bucket: Annotated[str, matching(BUCKET, "the name of an S3 bucket")] | None = Field(
        default=None,
        description="The bucket for code and results; by default gpuproof-ACCOUNT-REGION.",
        examples=["my-training-bucket"],
        json_schema_extra={"pattern": BUCKET},
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
    retry_spot: Annotated[int, Field(strict=True, ge=0, le=MAX_RETRIES)] = Field(
        default=0,
        description="How often a spot run is started again from its checkpoints when EC2 reclaims its instance.",
        examples=[3],
    )
