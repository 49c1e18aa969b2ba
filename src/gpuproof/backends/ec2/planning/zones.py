"""Finds the availability zones, and their subnets, in which an instance type can be launched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpuproof.backends.aws import Aws, AwsRefused
from gpuproof.backends.ec2.target import Zone
from gpuproof.errors import InvalidJob, UsageError


class ZoneFinder:
    """The zones of a job's instance types.

    Args:
        zones: one for each subnet, in the order in which they are tried.
    """

    def __init__(self, aws: Aws, zones: Sequence[Zone]) -> None:
        self._aws = aws
        self._zones = tuple(zones)

    @classmethod
    def find(cls, aws: Aws, subnets: Sequence[str]) -> ZoneFinder:
        """The zones of these subnets, or of the default VPC.

        Raises:
            InvalidJob: a subnet does not exist, or they are in several VPCs.
            UsageError: no subnet is named, and there is no default VPC.
        """
        return cls(aws, _given(aws, subnets) if subnets else _default(aws))

    @property
    def vpc(self) -> str:
        """The VPC of all subnets."""
        return self._zones[0].vpc

    def offering(self, instance_type: str, prices: Mapping[str, float]) -> tuple[Zone, ...]:
        """The zones that offer a type; empty if none does. Subnets keep their order, unless prices differ.

        Args:
            prices: spot prices by zone; zones without one come last.
        """
        try:
            offered = self._aws.zones_with(instance_type)
        except AwsRefused as refused:
            if not refused.is_permission:
                raise
            offered = {zone.name for zone in self._zones}  # RunInstances reports it
        found = [zone for zone in self._zones if zone.name in offered]
        return tuple(sorted(found, key=lambda zone: prices.get(zone.name, float("inf"))))


def _given(aws: Aws, ids: Sequence[str]) -> list[Zone]:
    try:
        described = {subnet["SubnetId"]: subnet for subnet in aws.subnets(ids)}
    except AwsRefused as refused:
        if refused.code != "InvalidSubnetID.NotFound":
            raise
        described = {}
    if missing := [id_ for id_ in ids if id_ not in described]:
        raise InvalidJob(
            f"{aws.region} has no subnet {missing[0]} in this account.", remedy="aws ec2 describe-subnets"
        )
    zones = [_zone(described[id_]) for id_ in ids]
    if len({zone.vpc for zone in zones}) > 1:
        listed = ", ".join(f"{zone.subnet} in {zone.vpc}" for zone in zones)
        raise InvalidJob(
            f"The subnets of the job are in several VPCs: {listed}.",
            remedy="Name subnets of one VPC: security groups belong to one.",
        )
    return zones


def _default(aws: Aws) -> list[Zone]:
    # A zone without free addresses cannot take an instance.
    described = [subnet for subnet in aws.subnets(default=True) if subnet.get("AvailableIpAddressCount", 1)]
    if not described:
        raise UsageError(
            f"The account has no default VPC in {aws.region}, and the job names no subnet.",
            remedy="Name a subnet whose instances reach S3 (ec2: subnets), or create the default VPC: "
            f"gpuproof setup{aws.region_flag}",
        )
    return sorted(map(_zone, described), key=lambda zone: zone.name)


def _zone(subnet: Mapping[str, Any]) -> Zone:
    return Zone(subnet["AvailabilityZone"], subnet["SubnetId"], subnet["VpcId"])
