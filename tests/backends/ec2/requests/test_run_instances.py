"""The RunInstances request: valid for boto3, safe defaults, a token of its own for each change."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import pytest

from gpuproof.backends.agent_job.expected_gpus import ExpectedGpus
from gpuproof.backends.ec2.requests.run_instances import NEW_GROUP, launch_call, run_instances_request
from gpuproof.backends.ec2.target import ChosenAmi, EC2Target, InstanceProfile, Zone
from gpuproof.errors import InvalidJob
from gpuproof.jobs.models.parts import Resources
from gpuproof.jobs.models.script_jobs import Job, TrainingJob
from gpuproof.units import Money

RUN = "small-20260501-120000-abcd"
AMI = ChosenAmi("ami-0123456789abcdef0", "DLAMI", "newest", "x86_64", snapshot_gb=60)
TARGET = EC2Target(
    "g5.xlarge",
    "us-east-1",
    None,
    None,
    None,
    AMI,
    (),
    ExpectedGpus(1, "A10G", "the job asks for it"),
    volume_gb=100,
)
ZONE = Zone("us-east-1a", "subnet-1", "vpc-1")
PROFILE = InstanceProfile("gpuproof-ec2")
USER_DATA = "#!/bin/bash\necho boot\n"


@dataclass(frozen=True)
class Plan:
    """What the request reads of a plan."""

    job: Job
    run_id: str = RUN
    bucket_name: str = "bucket"
    profile: InstanceProfile = PROFILE
    region: str = "us-east-1"
    groups: tuple[str, ...] = ("sg-1",)
    spot: bool = False

    def security_groups(self, region: str) -> tuple[str, ...]:
        return self.groups if region == self.region else ()


def plan(**job: Any) -> Plan:
    return Plan(TrainingJob(entry_point="train.py", name="small", **job))


def request(
    of: Plan | None = None, target: EC2Target = TARGET, zone: Zone = ZONE, **more: Any
) -> dict[str, Any]:
    return run_instances_request(of or plan(), target, zone, more.pop("user_data", USER_DATA), **more)


def tags(built: dict[str, Any], kind: str) -> dict[str, str]:
    (listed,) = [
        specification["Tags"]
        for specification in built["TagSpecifications"]
        if specification["ResourceType"] == kind
    ]
    return {tag["Key"]: tag["Value"] for tag in listed}


def test_the_request_is_valid() -> None:
    import botocore.session
    from botocore.validate import ParamValidator

    session = botocore.session.get_session()
    shape = session.get_service_model("ec2").operation_model("RunInstances").input_shape
    spot = replace(plan(resources=Resources(max_price=Money(Decimal("0.50")))), spot=True)
    volumes = replace(TARGET, ami=replace(AMI, other_devices=("/dev/sdb",)))
    for built in (
        request(),
        request(spot),
        request(zone=Zone("us-east-1a", "", "")),
        request(target=volumes),
    ):
        assert not ParamValidator().validate(built, shape).has_errors()


def test_one_instance_is_launched_and_terminates_when_it_shuts_down() -> None:
    built = request()
    assert (built["MinCount"], built["MaxCount"]) == (1, 1)
    assert built["InstanceInitiatedShutdownBehavior"] == "terminate"
    assert (built["ImageId"], built["InstanceType"], built["UserData"]) == (AMI.id, "g5.xlarge", USER_DATA)


def test_all_hosts_are_launched_or_none() -> None:
    several = plan(instance_count=4)
    built = request(several)
    assert (built["MinCount"], built["MaxCount"]) == (4, 4)
    assert "Placement" not in built
    assert built["ClientToken"] != request()["ClientToken"]
    call = launch_call(several, TARGET, ZONE, USER_DATA)
    assert call.what == "launch 4 instances g5.xlarge in us-east-1a"


def test_there_is_no_way_in() -> None:
    built = request()
    assert "KeyName" not in built
    assert built["SecurityGroupIds"] == ["sg-1"]
    assert built["MetadataOptions"] == {
        "HttpEndpoint": "enabled",
        "HttpTokens": "required",
        "HttpPutResponseHopLimit": 2,
        "InstanceMetadataTags": "enabled",
    }


def test_the_root_volume_is_encrypted_and_ends_with_the_instance() -> None:
    (volume,) = request()["BlockDeviceMappings"]
    assert volume == {
        "DeviceName": "/dev/sda1",
        "Ebs": {"VolumeType": "gp3", "Encrypted": True, "DeleteOnTermination": True, "VolumeSize": 100},
    }


@pytest.mark.parametrize(
    ("wanted", "snapshot", "size"), [(100, 60, 100), (30, 60, 60), (0, 60, 60), (0, 0, None)]
)
def test_the_volume_is_no_smaller_than_the_snapshot(wanted: int, snapshot: int, size: int | None) -> None:
    target = replace(
        TARGET, volume_gb=wanted, ami=replace(AMI, snapshot_gb=snapshot, root_device="/dev/xvda")
    )
    (volume,) = request(target=target)["BlockDeviceMappings"]
    assert volume["DeviceName"] == "/dev/xvda"
    assert volume["Ebs"].get("VolumeSize") == size


def test_a_subnet_selects_the_zone() -> None:
    built = request()
    assert built["SubnetId"] == "subnet-1"
    assert "Placement" not in built
    without = request(zone=Zone("us-east-1b", "", ""))
    assert without["Placement"] == {"AvailabilityZone": "us-east-1b"}
    assert "SubnetId" not in without
    anywhere = request(zone=Zone("", "", ""))
    assert not {"SubnetId", "Placement"} & set(anywhere)


def test_the_profile_is_named_as_it_is_known() -> None:
    arn = "arn:aws:iam::123456789012:instance-profile/jobs"
    assert request()["IamInstanceProfile"] == {"Name": "gpuproof-ec2"}
    assert request(replace(plan(), profile=InstanceProfile("jobs", arn)))["IamInstanceProfile"] == {
        "Arn": arn
    }


def test_on_demand_capacity_has_no_market_options() -> None:
    assert "InstanceMarketOptions" not in request()


@pytest.mark.parametrize(("price", "most"), [(None, None), ("0.50", "0.50"), ("0.0000001", "0.0000001")])
def test_a_spot_instance_is_requested_once(price: str | None, most: str | None) -> None:
    resources = Resources(max_price=Money(Decimal(price)) if price else None)
    options = request(replace(plan(resources=resources), spot=True))["InstanceMarketOptions"]
    assert options["MarketType"] == "spot"
    assert options["SpotOptions"].pop("MaxPrice", None) == most
    assert options["SpotOptions"] == {
        "SpotInstanceType": "one-time",
        "InstanceInterruptionBehavior": "terminate",
    }


def test_everything_that_the_launch_creates_carries_the_runs_tags() -> None:
    built = request(replace(plan(tags={"team": "vision"}), spot=True))
    for kind in ("instance", "volume", "network-interface", "spot-instances-request"):
        found = tags(built, kind)
        assert found.pop("gpuproof:version")
        assert found == {
            "Name": RUN,
            "team": "vision",
            "gpuproof:run": RUN,
            "gpuproof:job": "small",
            "gpuproof:kind": "training",
            "gpuproof:bucket": "bucket",
            "gpuproof:instance": "g5.xlarge",
        }


def test_on_demand_no_spot_request_is_tagged() -> None:
    kinds = [specification["ResourceType"] for specification in request()["TagSpecifications"]]
    assert kinds == ["instance", "volume", "network-interface"]


def test_a_name_that_the_user_gives_is_kept() -> None:
    assert tags(request(plan(tags={"Name": "mine"})), "instance")["Name"] == "mine"


@pytest.mark.parametrize("key", ["cost centre", "team/vision", "équipe", ".", "_index"])
def test_a_key_that_the_metadata_service_cannot_return_is_not_on_the_instance(key: str) -> None:
    built = request(plan(tags={key: "value", "ok+-=.,_:@9": "value"}))
    assert key not in tags(built, "instance")
    assert "ok+-=.,_:@9" in tags(built, "instance")
    assert tags(built, "volume")[key] == tags(built, "network-interface")[key] == "value"


def test_too_many_tags_are_rejected_with_room_for_the_stop_request() -> None:
    def number(count: int) -> dict[str, str]:
        return {f"tag-{number}": "value" for number in range(count)}

    assert len(tags(request(plan(tags=number(42))), "instance")) == 49
    with pytest.raises(InvalidJob, match="EC2 allows 50"):
        request(plan(tags=number(43)))


def test_an_equal_request_has_the_same_token_and_a_changed_one_another() -> None:
    requests = [
        request(),
        request(zone=replace(ZONE, subnet="subnet-2")),
        request(target=replace(TARGET, name="g6.xlarge")),
        request(user_data="#!/bin/sh\n"),
        request(attempt=2),
        request(replace(plan(), run_id="small-20260501-120000-ffff")),
        request(replace(plan(), spot=True)),
    ]
    tokens = [request["ClientToken"] for request in requests]
    assert len(set(tokens)) == len(tokens)
    assert request()["ClientToken"] == tokens[0]
    assert all(len(token) <= 64 and token.isascii() for token in tokens)


def test_a_dry_run_shows_that_the_security_group_will_be_created() -> None:
    call = launch_call(replace(plan(), groups=()), TARGET, ZONE, USER_DATA)
    assert call.request["SecurityGroupIds"] == [NEW_GROUP]
    assert call.what == "launch the instance g5.xlarge in us-east-1a"
    spot = launch_call(replace(plan(), spot=True), TARGET, Zone("", "", ""), USER_DATA)
    assert spot.what == "launch the spot instance g5.xlarge"
