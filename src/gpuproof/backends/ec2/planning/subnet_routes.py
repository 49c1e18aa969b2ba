"""Finds out while planning whether instances without a public address reach S3: one that does not ends without a report.

An internet gateway serves only instances with a public address; a NAT gateway or an endpoint of S3 serves all.

Sources: https://docs.aws.amazon.com/vpc/latest/userguide/VPC_Internet_Gateway.html,
https://docs.aws.amazon.com/vpc/latest/privatelink/vpc-endpoints-s3.html
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_network
from typing import Any

from gpuproof.backends.aws import Aws, AwsRefused

_EVERYWHERE = "0.0.0.0/0"


class Reach(enum.Enum):
    """What instances in a subnet reach."""

    INTERNET = "the internet, probably"
    S3 = "S3 only"
    NOTHING = "no S3, certainly"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class SubnetRoute:
    """What instances in a subnet reach.

    Args:
        table: id of its route table; empty if that was not looked up.
        why: why it is unknown: the error code of a request, or a phrase; empty otherwise.
    """

    subnet: str
    reach: Reach
    table: str = ""
    why: str = ""


def subnet_routes(
    aws: Aws, subnets: Sequence[Mapping[str, Any]], bucket_region: str
) -> dict[str, SubnetRoute]:
    """What instances in the subnets of one VPC reach, by subnet. Makes requests only if some get no public address.

    Args:
        subnets: as DescribeSubnets describes them.
        bucket_region: the region of the bucket; endpoints of S3 are for buckets of their own region.
    """
    found = {subnet["SubnetId"]: SubnetRoute(subnet["SubnetId"], Reach.INTERNET) for subnet in subnets}
    private = [subnet["SubnetId"] for subnet in subnets if subnet.get("MapPublicIpOnLaunch") is False]
    if not private:
        return found
    vpc = subnets[0]["VpcId"]
    if (owner := subnets[0].get("OwnerId")) and owner != aws.caller().account:
        # Of a VPC that another account shares, endpoints and other tables cannot be seen.
        return found | {
            id_: SubnetRoute(id_, Reach.UNKNOWN, why="another account shares the VPC") for id_ in private
        }
    try:
        tables, endpoints = aws.route_tables(vpc), aws.vpc_endpoints(vpc)
    except AwsRefused as refused:
        if not refused.is_permission:
            raise
        return found | {id_: SubnetRoute(id_, Reach.UNKNOWN, why=refused.code) for id_ in private}
    if bucket_region != aws.region:
        endpoints = []
    return found | {id_: evaluate_route(id_, tables, endpoints) for id_ in private}


def evaluate_route(
    subnet: str, tables: Sequence[Mapping[str, Any]], endpoints: Sequence[Mapping[str, Any]]
) -> SubnetRoute:
    """What instances without a public address reach in a subnet.

    Args:
        tables: the route tables of its VPC, as DescribeRouteTables describes them.
        endpoints: the endpoints of its VPC, as DescribeVpcEndpoints describes them.
    """
    table = _table(subnet, tables)
    if table is None:
        return SubnetRoute(subnet, Reach.UNKNOWN)
    id_ = table["RouteTableId"]
    if any(_leads_out(route) for route in table.get("Routes", ())):
        return SubnetRoute(subnet, Reach.INTERNET, id_)
    served = any(_is_for_s3(endpoint, id_) for endpoint in endpoints)
    return SubnetRoute(subnet, Reach.S3 if served else Reach.NOTHING, id_)


def _table(subnet: str, tables: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The route table of a subnet: its own, or the main one of the VPC."""
    main: Mapping[str, Any] | None = None
    for table in tables:
        for association in table.get("Associations", ()):
            if association.get("SubnetId") == subnet:
                return table
            if association.get("Main"):
                main = table
    return main


def _leads_out(route: Mapping[str, Any]) -> bool:
    """Whether a route may lead to addresses of AWS's services; of what is behind other gateways, nothing is known."""
    gateway = str(route.get("GatewayId", ""))
    if route.get("State") == "blackhole" or gateway == "local" or gateway.startswith(("igw-", "vpce-")):
        return False
    destination = route.get("DestinationCidrBlock")
    if destination is None:
        return "DestinationPrefixListId" in route
    return destination == _EVERYWHERE or not ip_network(destination, strict=False).is_private


def _is_for_s3(endpoint: Mapping[str, Any], table: str) -> bool:
    if not str(endpoint.get("ServiceName", "")).endswith(".s3"):
        return False
    if endpoint.get("VpcEndpointType") == "Interface":
        return bool(endpoint.get("PrivateDnsEnabled"))
    return table in endpoint.get("RouteTableIds", ())
