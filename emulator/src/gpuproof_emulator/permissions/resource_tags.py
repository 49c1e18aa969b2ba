"""The tags of resources, for the condition key `aws:ResourceTag`: those of SageMaker and EC2."""

from __future__ import annotations

from collections.abc import Mapping

from gpuproof_emulator.protocol import ACCOUNT
from gpuproof_emulator.store import Store


def tags_of(arn: str, store: Store) -> Mapping[str, str]:
    """The tags of the resource with an ARN; empty if it does not exist, or is of another service."""
    parts = arn.split(":", 5)
    if len(parts) < 6:
        return {}
    service, region, name = parts[2], parts[3], parts[5]
    kind, _, rest = name.partition("/")
    if service == "sagemaker":
        resource = store.get(kind, region, rest)
        return {} if resource is None else resource.tags
    if service == "ec2":
        from moto.ec2.models import ec2_backends  # loads slowly

        found: dict[str, str] = ec2_backends[ACCOUNT][region].tags.get(rest, {})
        return found
    return {}
