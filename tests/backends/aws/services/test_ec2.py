"""Requests to EC2, Systems Manager and Service Quotas over HTTP."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from gpuproof.backends.aws import Aws, AwsRefused
from gpuproof.backends.aws.services.ec2 import RUN_TAG
from support.faulty_aws import (
    FakeResponse,
    FaultyAws,
    Request,
    disconnect,
    json_answer,
    json_error,
    query_error,
)

pytestmark = pytest.mark.slow

IMAGE = "ami-12c6146b"


def launch(aws: Aws, run: str, **more: Any) -> str:
    tags = [{"ResourceType": "instance", "Tags": [{"Key": RUN_TAG, "Value": run}]}]
    request = {"ImageId": IMAGE, "InstanceType": "g5.xlarge", "MinCount": 1, "MaxCount": 1}
    (made,) = aws.run_instances({**request, "TagSpecifications": tags, **more})
    return made["InstanceId"]


def answer(operation: str, content: str) -> FakeResponse:
    body = f"<{operation}Response>{content}</{operation}Response>"
    return FakeResponse(200, body.encode(), {"Content-Type": "text/xml"})


def test_instances_are_described_in_the_order_of_their_ids(aws: Aws) -> None:
    one, two = launch(aws, "order"), launch(aws, "order")
    assert [found["InstanceId"] for found in aws.instances([two, one])] == [two, one]
    assert [found["InstanceId"] for found in aws.instances([one, two])] == [one, two]


def test_an_instance_that_has_vanished_is_left_out(aws: Aws) -> None:
    one, gone = launch(aws, "gone"), "i-0123456789abcdef0"
    assert [found["InstanceId"] for found in aws.instances([gone, one])] == [one]
    assert aws.instances([gone]) == []
    assert aws.instances([]) == []


def test_instances_are_found_by_tag(aws: Aws) -> None:
    one, two = launch(aws, "run-1"), launch(aws, "run-2")
    assert [found["InstanceId"] for found in aws.tagged_instances(values=["run-1"])] == [one]
    assert {one, two} <= {found["InstanceId"] for found in aws.tagged_instances()}
    aws.terminate_instances([one])
    assert list(aws.tagged_instances(values=["run-1"], living=True)) == []


def test_instances_are_tagged_even_if_the_connection_is_lost(faulty: FaultyAws, aws: Aws) -> None:
    one = launch(aws, "stop")
    faulty.fault("CreateTags", disconnect(forwards=True))
    aws.tag_instances([one], {"gpuproof:stop": "now"})
    (found,) = aws.instances([one])
    assert {"Key": "gpuproof:stop", "Value": "now"} in found["Tags"]
    assert faulty.count("CreateTags") == 2


def test_the_console_of_an_instance_without_latest_output_is_read(faulty: FaultyAws, aws: Aws) -> None:
    faulty.fault("GetConsoleOutput", query_error("UnsupportedOperation"))
    faulty.fault("GetConsoleOutput", answer("GetConsoleOutput", "<output>Ym9vdA==</output>"))
    assert aws.console_output("i-1") == "boot"
    faulty.fault("GetConsoleOutput", query_error("InvalidInstanceID.NotFound"))
    assert aws.console_output("i-1") == ""


def test_the_newest_image_of_an_architecture_is_found(aws: Aws, faulty: FaultyAws) -> None:
    items = "".join(
        f"<item><imageId>ami-{day}</imageId><creationDate>2026-01-{day}T00:00:00.000Z</creationDate></item>"
        for day in ("02", "03", "01")
    )
    faulty.fault("DescribeImages", answer("DescribeImages", f"<imagesSet>{items}</imagesSet>"))
    found = aws.newest_image("Deep Learning*", "x86_64")
    assert found is not None
    assert found["ImageId"] == "ami-03"
    assert aws.newest_image("no such image *", "x86_64") is None


def test_an_image_is_described(aws: Aws) -> None:
    found = aws.image(IMAGE)
    assert found is not None
    assert found["RootDeviceName"]
    assert aws.image("ami-0123456789abcdef0") is None


def test_parameters_of_systems_manager_are_read(faulty: FaultyAws, aws: Aws) -> None:
    faulty.fault("GetParameter", json_answer({"Parameter": {"Name": "/a", "Value": "ami-1"}}))
    assert aws.parameter("/a") == "ami-1"
    faulty.fault("GetParameter", json_error("ParameterNotFound"))
    assert aws.parameter("/a") is None
    faulty.fault("GetParameter", json_error("AccessDeniedException"))
    with pytest.raises(AwsRefused) as caught:
        aws.parameter("/a")
    assert caught.value.is_permission


def test_zones_and_subnets_are_listed(aws: Aws) -> None:
    assert "us-east-1a" in aws.zones_with("g5.xlarge")
    subnets = aws.subnets(default=True)
    assert {subnet["AvailabilityZone"] for subnet in subnets} >= {"us-east-1a", "us-east-1b"}
    vpc = subnets[0]["VpcId"]
    assert aws.security_group("no such group", vpc) is None
    assert (aws.security_group("default", vpc) or "").startswith("sg-")


def test_the_latest_spot_price_of_each_zone_counts(faulty: FaultyAws, aws: Aws) -> None:
    rows = [("us-east-1a", "0.5", "01"), ("us-east-1a", "0.4", "02"), ("us-east-1b", "0.6", "01")]
    items = "".join(
        f"<item><availabilityZone>{zone}</availabilityZone><spotPrice>{price}</spotPrice>"
        f"<timestamp>2026-01-{day}T00:00:00.000Z</timestamp></item>"
        for zone, price, day in rows
    )
    content = f"<spotPriceHistorySet>{items}</spotPriceHistorySet>"
    faulty.fault("DescribeSpotPriceHistory", answer("DescribeSpotPriceHistory", content))
    assert aws.spot_prices("g5.xlarge", time.time()) == {"us-east-1a": 0.4, "us-east-1b": 0.6}


def test_a_quota_is_read(faulty: FaultyAws, aws: Aws) -> None:
    def quota(request: Request) -> FakeResponse:
        assert json.loads(request.body) == {"ServiceCode": "ec2", "QuotaCode": "L-DB2E81BA"}
        return json_answer({"Quota": {"Value": 64.0}})

    faulty.fault("GetServiceQuota", quota)
    assert aws.service_quota("ec2", "L-DB2E81BA") == 64.0
    faulty.fault("GetServiceQuota", json_error("NoSuchResourceException"))
    assert aws.service_quota("ec2", "L-DB2E81BA") is None


def test_missing_capacity_is_not_an_internal_error(faulty: FaultyAws, aws: Aws, waited: list[float]) -> None:
    faulty.fault("RunInstances", query_error("InsufficientInstanceCapacity", "Insufficient capacity.", 500))
    with pytest.raises(AwsRefused) as caught:
        launch(aws, "capacity")
    assert caught.value.is_capacity
    assert not caught.value.maybe_done
    assert not caught.value.is_fault
    assert (faulty.count("RunInstances"), waited) == (1, [])


def test_a_throttled_launch_is_repeated(faulty: FaultyAws, aws: Aws, waited: list[float]) -> None:
    faulty.fault("RunInstances", query_error("RequestLimitExceeded", "Request limit exceeded.", 503), times=3)
    launch(aws, "throttled")
    assert faulty.count("RunInstances") == 4
    assert len(waited) == 3
