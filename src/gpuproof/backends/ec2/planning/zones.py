"""Finds the availability zones, and their subnets, in which an instance type can be launched."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from gpuproof.backends.aws import Aws, AwsRefused
from gpuproof.backends.ec2.planning.subnet_routes import Reach, SubnetRoute, subnet_routes
from gpuproof.backends.ec2.target import Zone
from gpuproof.errors import InvalidJob, UsageError

_WITHOUT_ROUTE = (
    "they get no public address, and the route table has neither a NAT gateway nor an endpoint of S3"
)


class ZoneFinder:
    """The zones of a job's instance types.

    Args:
        zones: one for each subnet, in the order in which they are tried.
        notes: which subnets are left out, and what the others do not reach.
    """

    def __init__(self, aws: Aws, zones: Sequence[Zone], notes: Sequence[str] = ()) -> None:
        self._aws = aws
        self._zones = tuple(zones)
        self.notes = tuple(notes)

    @classmethod
    def find(cls, aws: Aws, subnets: Sequence[str], bucket_region: str | None = None) -> ZoneFinder:
        """The zones of these subnets, or of the default VPC; without those whose instances certainly do not reach S3.

        Args:
            bucket_region: the region of the bucket; by default the client's.

        Raises:
            InvalidJob: a subnet does not exist, they are in several VPCs, or no instance in them would reach S3.
            UsageError: no subnet is named, and there is no default VPC.
        """
        described = _given(aws, subnets) if subnets else _default(aws)
        routes = subnet_routes(aws, described, bucket_region or aws.region)
        reached = [subnet for subnet in described if routes[subnet["SubnetId"]].reach is not Reach.NOTHING]
        if not reached:
            raise _unreachable(aws, described[0]["VpcId"], list(routes.values()))
        return cls(aws, [_zone(subnet) for subnet in reached], tuple(_notes(routes.values())))

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


def _unreachable(aws: Aws, vpc: str, routes: Sequence[SubnetRoute]) -> InvalidJob:
    first, region = routes[0], aws.region_flag
    public = f"aws ec2 modify-subnet-attribute --subnet-id {first.subnet} --map-public-ip-on-launch{region}"
    endpoint = (
        f"aws ec2 create-vpc-endpoint --vpc-id {vpc} --service-name com.amazonaws.{aws.region}.s3 "
        f"--route-table-ids {first.table}{region}"
    )
    return InvalidJob(
        f"Instances in {', '.join(route.subnet for route in routes)} would not reach S3: {_WITHOUT_ROUTE}.",
        remedy="Name subnets with public addresses or a NAT gateway (ec2: subnets); or let instances have public addresses, if there is "
        f"an internet gateway: {public}; or create an endpoint of S3, which is free: {endpoint}",
    )


def _notes(routes: Iterable[SubnetRoute]) -> Iterator[str]:
    for route in routes:
        match route.reach:
            case Reach.NOTHING:
                yield f"{route.subnet} is not tried: its instances would not reach S3, since {_WITHOUT_ROUTE}"
            case Reach.UNKNOWN:
                why = f": {route.why}" if route.why else ""
                yield f"instances in {route.subnet} get no public address; whether they reach S3 was not checked{why}"
            case Reach.S3:
                yield (
                    f"instances in {route.subnet} reach S3 by an endpoint, but no internet: packages cannot be installed from PyPI; "
                    "CloudWatch Logs, images of ECR and `gpuproof shell` need endpoints of their own"
                )
            case Reach.INTERNET:
                pass


def _given(aws: Aws, ids: Sequence[str]) -> list[dict[str, Any]]:
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
    found = [described[id_] for id_ in ids]
    if len({subnet["VpcId"] for subnet in found}) > 1:
        listed = ", ".join(f"{subnet['SubnetId']} in {subnet['VpcId']}" for subnet in found)
        raise InvalidJob(
            f"The subnets of the job are in several VPCs: {listed}.",
            remedy="Name subnets of one VPC: security groups belong to one.",
        )
    return found


def _default(aws: Aws) -> list[dict[str, Any]]:
    # A zone without free addresses cannot take an instance.
    described = [subnet for subnet in aws.subnets(default=True) if subnet.get("AvailableIpAddressCount", 1)]
    if not described:
        raise UsageError(
            f"The account has no default VPC in {aws.region}, and the job names no subnet.",
            remedy="Name a subnet whose instances reach S3 (ec2: subnets), or create the default VPC: "
            f"gpuproof setup{aws.region_flag}",
        )
    return sorted(described, key=lambda subnet: subnet["AvailabilityZone"])


def _zone(subnet: Mapping[str, Any]) -> Zone:
    return Zone(subnet["AvailabilityZone"], subnet["SubnetId"], subnet["VpcId"])
