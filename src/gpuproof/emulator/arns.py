"""Names of SageMaker's resources as AWS spells them."""

from __future__ import annotations

from gpuproof.emulator.protocol import ACCOUNT
from gpuproof.emulator.store import Resource

TRAINING, PROCESSING = "training-job", "processing-job"
MODEL, ENDPOINT_CONFIG, ENDPOINT = "model", "endpoint-config", "endpoint"


def arn(kind: str, region: str, name: str) -> str:
    """A resource's ARN."""
    return f"arn:{partition(region)}:sagemaker:{region}:{ACCOUNT}:{kind}/{name}"


def arn_of(resource: Resource) -> str:
    """A resource's ARN."""
    return arn(resource.kind, resource.region, resource.name)


def partition(region: str) -> str:
    """The partition of a region: `aws`, `aws-cn` or `aws-us-gov`."""
    return "aws-cn" if region.startswith("cn-") else "aws-us-gov" if region.startswith("us-gov-") else "aws"
