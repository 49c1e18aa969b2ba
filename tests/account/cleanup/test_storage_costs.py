"""What volumes, stopped instances and stopped notebook instances cost, over HTTP."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.cli_sandbox import CliSandbox
from support.emulated_account import EmulatedAccount

pytestmark = pytest.mark.slow

HOURS = 730


def listed(cli: CliSandbox, *words: str) -> dict[str, dict[str, Any]]:
    done = cli.gpuproof("cleanup", *words, "--format", "json")
    return {resource["key"]: resource for resource in json.loads(done.stdout)["resources"]}


def volume(account: EmulatedAccount, region: str = "us-east-1", **settings: Any) -> str:
    ec2 = account.client("ec2", region)
    return ec2.create_volume(AvailabilityZone=f"{region}a", **settings)["VolumeId"]


@pytest.mark.parametrize(
    ("settings", "monthly"),
    [
        ({"Size": 100, "VolumeType": "gp3"}, 8.0),
        (
            {"Size": 100, "VolumeType": "gp3", "Iops": 5000, "Throughput": 250},
            8.0 + 2000 * 0.005 + 125 * 0.04,
        ),
        ({"Size": 100, "VolumeType": "io1", "Iops": 1000}, 12.5 + 1000 * 0.065),
        ({"Size": 500, "VolumeType": "sc1"}, 7.5),
    ],
)
def test_a_volume_costs_its_size_and_what_it_has_above_what_is_included(
    account: EmulatedAccount, cli: CliSandbox, settings: dict[str, Any], monthly: float
) -> None:
    name = volume(account, **settings)
    one = listed(cli)[f"us-east-1/volume/{name}"]
    assert one["usd_per_hour"] == pytest.approx(monthly / HOURS)
    assert one["price_is_derived"] is False


def test_a_price_that_is_derived_is_marked(account: EmulatedAccount, cli: CliSandbox) -> None:
    volume(account, "ap-northeast-1", Size=100, VolumeType="gp3", Iops=4000)
    done = cli.gpuproof("cleanup", "--region", "ap-northeast-1")
    assert done.returncode == 0, done.stderr
    assert f"~${24 * (9.6 + 6.0) / HOURS:.2f}" in done.stdout
    assert "unknown" not in done.stdout


def test_a_volume_that_is_attached_belongs_to_its_instance(account: EmulatedAccount, cli: CliSandbox) -> None:
    instance = account.instance()
    more = volume(account, Size=100, VolumeType="gp3")
    ec2 = account.client("ec2", "us-east-1")
    ec2.attach_volume(InstanceId=instance, VolumeId=more, Device="/dev/sdf")
    running = listed(cli)
    assert list(running) == [f"us-east-1/instance/{instance}"]
    assert running[f"us-east-1/instance/{instance}"]["usd_per_hour"] == pytest.approx(1.006)
    ec2.stop_instances(InstanceIds=[instance])
    (stopped,) = listed(cli).values()
    root = ec2.describe_volumes(Filters=[{"Name": "attachment.instance-id", "Values": [instance]}])["Volumes"]
    sizes = {item["VolumeType"]: item["Size"] for item in root}
    assert stopped["usd_per_hour"] == pytest.approx((100 * 0.08 + sizes["gp2"] * 0.10) / HOURS)
    assert "only its volumes are billed" in stopped["note"]
    assert (stopped["action"], stopped["loses_data"]) == ("terminate", True)


def test_a_stopped_notebook_costs_its_disk(account: EmulatedAccount, cli: CliSandbox) -> None:
    account.notebook("old", status="Stopped", volume_gb=200)
    account.notebook("busy")
    found = listed(cli)
    assert found["us-east-1/notebook/old"]["usd_per_hour"] == pytest.approx(200 * 0.14 / HOURS)
    assert found["us-east-1/notebook/old"]["note"] == "only its disk of 200 GB is billed"
    assert found["us-east-1/notebook/busy"]["usd_per_hour"] == pytest.approx(1.41)


@pytest.mark.parametrize(
    ("operation", "key"),
    [("DescribeVolumes", "instance"), ("DescribeNotebookInstance", "notebook")],
)
def test_a_price_that_may_not_be_read_is_unknown_and_named(
    account: EmulatedAccount, cli: CliSandbox, operation: str, key: str
) -> None:
    instance = account.instance()
    account.client("ec2", "us-east-1").stop_instances(InstanceIds=[instance])
    account.notebook("old", status="Stopped", volume_gb=200)
    account.fault(f"access-denied,operation={operation}")
    done = cli.gpuproof("cleanup", "--format", "json")
    document = json.loads(done.stdout)
    unknown = [resource["kind"] for resource in document["resources"] if resource["usd_per_hour"] is None]
    assert (done.returncode, unknown, document["total"]["unknown_prices"]) == (5, [key], 1)
    assert operation in {problem["operation"] for problem in document["problems"]}
