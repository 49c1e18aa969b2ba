"""Checks the region of a run on AWS."""

from __future__ import annotations

from gpuproof.backends.aws import Aws
from gpuproof.catalogue import Catalogue
from gpuproof.errors import UsageError


def check_region(aws: Aws, catalogue: Catalogue) -> str:
    """The region of all requests. One that neither boto3 nor the catalogue knows is most likely a typing error.

    Raises:
        UsageError: the region is unknown, or none is set.
    """
    region = aws.region
    if region in catalogue.tables.registries:
        return region
    near = aws.unknown_region()
    if near is None:
        return region
    raise UsageError(
        f"The installed boto3 knows no AWS region {region}.",
        remedy=f"Did you mean {near}?" if near else "If the region is new: pip install -U boto3",
    )
