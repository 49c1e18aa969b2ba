"""Subnets whose instances get no public address: left out or refused while planning if they certainly do not reach S3."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from gpuproof.backends.ec2.planning.subnet_routes import Reach, evaluate_route, subnet_routes
from gpuproof.errors import InvalidJob
from support.aws_emulator import REGION
from support.ec2_planning import EC2PlanningSandbox

LOCAL = {"DestinationCidrBlock": "172.31.0.0/16", "GatewayId": "local", "State": "active"}
GATEWAY = {"DestinationCidrBlock": "0.0.0.0/0", "GatewayId": "igw-1", "State": "active"}
NAT = {"DestinationCidrBlock": "0.0.0.0/0", "NatGatewayId": "nat-1", "State": "active"}
S3_ROUTE = {"DestinationPrefixListId": "pl-1", "GatewayId": "vpce-1", "State": "active"}
S3 = {"ServiceName": "com.amazonaws.us-east-1.s3", "VpcEndpointType": "Gateway", "RouteTableIds": ["rtb-1"]}


def table(*routes: dict[str, str], id_: str = "rtb-1", **association: Any) -> dict[str, Any]:
    return {"RouteTableId": id_, "Routes": [LOCAL, *routes], "Associations": [association or {"Main": True}]}


@pytest.mark.parametrize(
    ("routes", "reach"),
    [
        ([], Reach.NOTHING),
        ([GATEWAY], Reach.NOTHING),
        ([{**NAT, "State": "blackhole"}], Reach.NOTHING),
        ([{"DestinationCidrBlock": "10.0.0.0/8", "VpcPeeringConnectionId": "pcx-1"}], Reach.NOTHING),
        ([NAT], Reach.INTERNET),
        ([{"DestinationCidrBlock": "0.0.0.0/0", "TransitGatewayId": "tgw-1"}], Reach.INTERNET),
        ([{"DestinationCidrBlock": "0.0.0.0/0", "NetworkInterfaceId": "eni-1"}], Reach.INTERNET),
        ([{"DestinationCidrBlock": "52.216.0.0/15", "GatewayId": "vgw-1"}], Reach.INTERNET),
        ([{"DestinationPrefixListId": "pl-1", "TransitGatewayId": "tgw-1"}], Reach.INTERNET),
        ([GATEWAY, NAT], Reach.INTERNET),
    ],
)
def test_an_internet_gateway_serves_no_private_address(routes: list[dict[str, str]], reach: Reach) -> None:
    assert evaluate_route("subnet-1", [table(*routes)], []).reach is reach


@pytest.mark.parametrize(
    ("endpoint", "reach"),
    [
        (S3, Reach.S3),
        ({**S3, "RouteTableIds": ["rtb-2"]}, Reach.NOTHING),
        ({**S3, "ServiceName": "com.amazonaws.us-east-1.dynamodb"}, Reach.NOTHING),
        ({**S3, "VpcEndpointType": "Interface", "RouteTableIds": [], "PrivateDnsEnabled": True}, Reach.S3),
        (
            {**S3, "VpcEndpointType": "Interface", "RouteTableIds": [], "PrivateDnsEnabled": False},
            Reach.NOTHING,
        ),
    ],
)
def test_an_endpoint_of_s3_serves_the_subnets_of_its_route_tables(
    endpoint: dict[str, Any], reach: Reach
) -> None:
    assert evaluate_route("subnet-1", [table(GATEWAY, S3_ROUTE)], [endpoint]).reach is reach


def test_the_own_route_table_of_a_subnet_counts_and_not_the_main_one() -> None:
    own = table(NAT, id_="rtb-2", SubnetId="subnet-1")
    assert evaluate_route("subnet-1", [table(), own], []).reach is Reach.INTERNET
    assert evaluate_route("subnet-2", [table(), own], []).reach is Reach.NOTHING
    assert evaluate_route("subnet-2", [own], []).reach is Reach.UNKNOWN


@pytest.mark.slow
def test_nothing_is_certain_in_a_vpc_that_another_account_shares(sandbox: EC2PlanningSandbox) -> None:
    """The account that it is shared with does not see its endpoints."""
    subnet = {"SubnetId": "subnet-1", "VpcId": "vpc-1", "MapPublicIpOnLaunch": False}
    shared = subnet_routes(sandbox.aws, [{**subnet, "OwnerId": "210987654321"}], REGION)
    assert shared["subnet-1"].reach is Reach.UNKNOWN
    assert shared["subnet-1"].why == "another account shares the VPC"


@dataclass
class PrivateSubnet:
    """A subnet of the default VPC whose instances get no public address, with a route table of its own."""

    sandbox: EC2PlanningSandbox
    id: str
    vpc: str
    table: str

    def __post_init__(self) -> None:
        self.ec2 = self.sandbox.emulator.client("ec2")

    def plan(self, *others: str) -> Any:
        """The plan of a job in this subnet and in others."""
        return self.sandbox.plan(self.sandbox.training(ec2={"subnets": [self.id, *others]}))


_NUMBERS = itertools.count(100)


@pytest.fixture
def private(sandbox: EC2PlanningSandbox) -> Iterator[PrivateSubnet]:
    ec2 = sandbox.emulator.client("ec2")
    vpc = ec2.describe_subnets()["Subnets"][0]["VpcId"]
    subnet = ec2.create_subnet(
        VpcId=vpc, CidrBlock=f"172.31.{next(_NUMBERS)}.0/24", AvailabilityZone="us-east-1a"
    )
    id_ = subnet["Subnet"]["SubnetId"]
    route_table = ec2.create_route_table(VpcId=vpc)["RouteTable"]["RouteTableId"]
    ec2.associate_route_table(SubnetId=id_, RouteTableId=route_table)
    yield PrivateSubnet(sandbox, id_, vpc, route_table)
    ec2.delete_subnet(SubnetId=id_)


@pytest.mark.slow
def test_a_job_whose_instances_would_not_reach_s3_is_refused_with_what_to_do(private: PrivateSubnet) -> None:
    with pytest.raises(InvalidJob, match=f"Instances in {private.id} would not reach S3") as caught:
        private.plan()
    remedy = caught.value.remedy or ""
    assert f"--subnet-id {private.id} --map-public-ip-on-launch" in remedy
    assert f"--service-name com.amazonaws.us-east-1.s3 --route-table-ids {private.table}" in remedy


@pytest.mark.slow
def test_the_commands_of_the_remedy_cure_it(private: PrivateSubnet) -> None:
    private.ec2.create_vpc_endpoint(
        VpcId=private.vpc, ServiceName="com.amazonaws.us-east-1.s3", RouteTableIds=[private.table]
    )
    plan = private.plan()
    assert [zone.subnet for zone in plan.target.zones] == [private.id]
    assert any(
        f"instances in {private.id} reach S3 by an endpoint, but no internet" in warning
        for warning in plan.warnings
    )
    private.ec2.modify_subnet_attribute(SubnetId=private.id, MapPublicIpOnLaunch={"Value": True})
    assert not any(private.id in warning for warning in private.plan().warnings)


@pytest.mark.slow
def test_a_subnet_that_does_not_reach_s3_is_left_out_where_another_does(private: PrivateSubnet) -> None:
    (other, *_) = private.sandbox.plan().target.zones
    plan = private.plan(other.subnet)
    assert [zone.subnet for zone in plan.target.zones] == [other.subnet]
    assert any(f"{private.id} is not tried: its instances" in warning for warning in plan.warnings)


@pytest.mark.slow
def test_who_may_not_read_route_tables_gets_a_note(private: PrivateSubnet) -> None:
    private.sandbox.emulator.faults("access-denied,service=ec2,operation=DescribeRouteTables")
    plan = private.plan()
    assert [zone.subnet for zone in plan.target.zones] == [private.id]
    assert any("whether they reach S3 was not checked" in warning for warning in plan.warnings)


@pytest.mark.slow
def test_default_subnets_with_public_addresses_cost_no_request(sandbox: EC2PlanningSandbox) -> None:
    sandbox.emulator.forget_requests()
    sandbox.plan()
    assert "DescribeRouteTables" not in set(sandbox.emulator.operations())
