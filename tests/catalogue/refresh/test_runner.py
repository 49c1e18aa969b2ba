"""Prices, quotas and AMI ids, from answers as AWS gives them (botocore's Stubber: moto has none of these)."""

import json
from collections.abc import Callable
from typing import Any

import boto3
import pytest
from botocore.stub import ANY, Stubber

from gpuproof.catalogue import Catalogue
from gpuproof.catalogue.refresh import account, pricing
from gpuproof.catalogue.refresh.compare import differences
from gpuproof.catalogue.refresh.runner import Outcome
from gpuproof.catalogue.refresh.store import Scope
from gpuproof.catalogue.tables import SHIPPED, Tables

Answer = dict[str, Any]


@pytest.fixture
def stubbed(aws_environment: pytest.MonkeyPatch) -> Callable[..., Any]:
    def make(service: str, *calls: tuple[str, Answer, Answer]) -> Any:
        client = boto3.client(service, region_name="us-east-1")
        stubber = Stubber(client)
        for method, answer, asked in calls:
            stubber.add_response(method, answer, asked)
        stubber.activate()
        return client

    return make


def product(usd: str, unit: str = "Hrs", **attributes: str) -> str:
    dimension = {"unit": unit, "pricePerUnit": {"USD": usd}}
    terms = {"OnDemand": {"SKU.JRTCKXETXF": {"priceDimensions": {"SKU.JRTCKXETXF.6YS6EN2CT7": dimension}}}}
    return json.dumps({"product": {"attributes": attributes}, "terms": terms})


def filters(**fields: str) -> list[dict[str, str]]:
    return [{"Type": "TERM_MATCH", "Field": field, "Value": value} for field, value in fields.items()]


def test_ec2_prices_are_requested_for_linux_on_shared_hardware_and_read_page_by_page(stubbed) -> None:
    asked = {
        "ServiceCode": "AmazonEC2",
        "Filters": filters(
            regionCode="eu-west-1",
            operatingSystem="Linux",
            preInstalledSw="NA",
            tenancy="Shared",
            capacitystatus="Used",
        ),
    }
    client = stubbed(
        "pricing",
        (
            "get_products",
            {"PriceList": [product("1.123", instanceType="g5.xlarge")], "NextToken": "2"},
            asked,
        ),
        (
            "get_products",
            {
                "PriceList": [
                    product("0", instanceType="g4dn.xlarge"),
                    product("2.0", instanceType="g6.xlarge"),
                    product("9.0", instanceType="x99.metal"),
                ]
            },
            {**asked, "NextToken": "2"},
        ),
    )
    rows = pricing.ec2_rows(client, "eu-west-1", {"g5.xlarge", "g6.xlarge", "g4dn.xlarge"}, "2026-11-21")
    assert [(row["instance_type"], row["usd_per_hour"], row["kind"]) for row in rows] == [
        ("g5.xlarge", "1.123", "observed"),
        ("g6.xlarge", "2", "observed"),
    ]


def test_sagemaker_prices_are_distinguished_by_use(stubbed) -> None:
    products = [
        product("1.515", usagetype="USE1-Train:ml.g5.2xlarge", instanceName="ml.g5.2xlarge"),
        product("1.516", usagetype="USE1-Host:ml.g5.2xlarge"),
        product("1.517", usagetype="USE1-Tsform:ml.g5.2xlarge"),
        product("1.518", usagetype="USE1-Studio:JupyterLab-ml.g5.2xlarge"),
        product("1.519", usagetype="USE1-Notebk:ml.g5.2xlarge"),
        product("1.520", component="Processing", instanceName="ml.g5.2xlarge"),
        product("0.14", unit="GB-Mo", usagetype="USE1-Train:VolumeUsage.gp2"),
        product("0.3", usagetype="USE1-Canvas:Session-Hrs"),
    ]
    asked = {"ServiceCode": "AmazonSageMaker", "Filters": filters(regionCode="us-east-1")}
    client = stubbed("pricing", ("get_products", {"PriceList": products}, asked))
    rows = pricing.sagemaker_rows(client, "us-east-1", "2026-11-21")
    assert {row["use"]: row["usd_per_hour"] for row in rows} == {
        "training": "1.515",
        "endpoint": "1.516",
        "transform": "1.517",
        "studio": "1.518",
        "notebook": "1.519",
        "processing": "1.52",
    }
    assert {row["instance_type"] for row in rows} == {"ml.g5.2xlarge"}


def test_storage_prices_are_read_by_usage_type_without_local_zones_and_included_units(stubbed) -> None:
    def tiered(first: str, then: str, unit: str, usage: str) -> str:
        found = json.loads(product(then, unit, usagetype=usage))
        term = found["terms"]["OnDemand"]["SKU.JRTCKXETXF"]["priceDimensions"]
        included = {"unit": unit, "pricePerUnit": {"USD": first}, "beginRange": "0", "endRange": "3000"}
        found["terms"]["OnDemand"]["SKU.JRTCKXETXF"]["priceDimensions"] = {"SKU.0": included, **term}
        return json.dumps(found)

    def asked(service: str, **fields: str) -> Answer:
        return {"ServiceCode": service, "Filters": filters(regionCode="us-east-1", **fields)}

    sizes = [
        product("0.08", "GB-Mo", usagetype="EBS:VolumeUsage.gp3"),
        product("0.096", "GB-Mo", usagetype="USE1-BOS1-EBS:VolumeUsage.gp3"),
        product("0.125", "GB-month", usagetype="EBS:VolumeUsage.io2"),
        product("0.125", "GB-Mo", usagetype="USE1-EBS:VolumeUsage.piops"),
        product("0.05", "GB-Mo", usagetype="EBS:VolumeUsage"),
        product("0.05", "IOs", usagetype="EBS:VolumeIOUsage"),
    ]
    operations = [
        tiered("0.0", "0.005", "IOPS-Mo", "EBS:VolumeP-IOPS.gp3"),
        product("0.0455", "IOPS-Mo", usagetype="EBS:VolumeP-IOPS.io2.tier2"),
    ]
    throughput = [product("40.96", "GiBps-mo", usagetype="EBS:VolumeP-Throughput.gp3")]
    sagemaker = [
        product("0.14", "GB-Mo", usagetype="USE1-Notebk:VolumeUsage.gp2"),
        product("0.12", "GB-Mo", usagetype="USE1-Notebk:VolumeUsage.gp3"),
        product("0.14", "GB-Mo", usagetype="USE1-Host:VolumeUsage.gp2"),
        product("1.41", usagetype="USE1-Notebk:ml.g5.xlarge"),
    ]
    client = stubbed(
        "pricing",
        ("get_products", {"PriceList": sizes}, asked("AmazonEC2", productFamily="Storage")),
        ("get_products", {"PriceList": operations}, asked("AmazonEC2", productFamily="System Operation")),
        (
            "get_products",
            {"PriceList": throughput},
            asked("AmazonEC2", productFamily="Provisioned Throughput"),
        ),
        ("get_products", {"PriceList": sagemaker}, asked("AmazonSageMaker")),
    )
    found = pricing.storage_rows(client, "us-east-1", "2026-11-21")
    header = (SHIPPED / "storage_prices.csv").read_text().splitlines()[0].split(",")
    assert all(list(row) == header for row in found)
    prices = {
        (row["use"], row["volume_type"], row["unit"], row["above"]): row["usd_per_month"] for row in found
    }
    assert prices == {
        ("volume", "gp3", "gb", "0"): "0.08",
        ("volume", "io2", "gb", "0"): "0.125",
        ("volume", "io1", "gb", "0"): "0.125",
        ("volume", "standard", "gb", "0"): "0.05",
        ("volume", "gp3", "iops", "3000"): "0.005",
        ("volume", "io2", "iops", "32000"): "0.0455",
        ("volume", "gp3", "mibps", "125"): "0.04",
        ("notebook", "ssd", "gb", "0"): "0.14",
    }


def test_check_reports_a_changed_storage_price_and_no_equal_one() -> None:
    def row(volume_type: str, usd: str) -> dict[str, str]:
        named = {"service": "ec2", "use": "volume", "volume_type": volume_type, "unit": "gb", "above": "0"}
        rest = {"kind": "observed", "confidence": "high", "source": "aws-api", "as_of": "2026-11-21"}
        return {**named, "region": "us-east-1", "usd_per_month": usd, **rest}

    rows = [row("gp3", "0.07"), row("gp2", "0.1"), row("gp9", "0.01")]
    found = differences(Tables(), [Outcome(Scope("storage-prices", "us-east-1"), rows, None)])
    assert [match.text for match in found] == [
        "gp3: $0.08 a month (2026-09-27) is now $0.07",
        "gp9: $0.01 a month, not shipped",
    ]


def test_quotas_are_kept_for_gpus_only(stubbed) -> None:
    def quota(name: str, code: str, value: float) -> Answer:
        return {"QuotaName": name, "QuotaCode": code, "Value": value}

    ec2 = [
        quota("Running On-Demand G and VT instances", "L-DB2E81BA", 8.0),
        quota("EC2-VPC Elastic IPs", "L-0263D0A3", 5.0),
    ]
    sagemaker = [
        quota("ml.g5.xlarge for training job usage", "L-B6D80D9C", 1.0),
        quota("ml.m5.large for training job usage", "L-611FA074", 4.0),
        quota("Studio JupyterLab Apps running on ml.g5.xlarge instances", "L-988CE6C5", 0.0),
    ]
    client = stubbed(
        "service-quotas",
        ("list_service_quotas", {"Quotas": ec2}, {"ServiceCode": "ec2"}),
        ("list_service_quotas", {"Quotas": sagemaker}, {"ServiceCode": "sagemaker"}),
    )
    names = {row.name for row in Tables().quotas if row.service == "ec2"}
    rows = account.quota_rows(client, "us-east-1", names, {"g5.xlarge"}, "2026-11-21")
    assert [(row["code"], row["value"]) for row in rows] == [
        ("L-DB2E81BA", "8"),
        ("L-B6D80D9C", "1"),
        ("L-988CE6C5", "0"),
    ]


def test_ami_ids_are_requested_ten_at_a_time_and_missing_ones_omitted(stubbed) -> None:
    names = [f"/aws/service/deeplearning/ami/{number}/latest/ami-id" for number in range(12)]
    found = [{"Name": names[0], "Value": "ami-1"}]
    client = stubbed(
        "ssm",
        ("get_parameters", {"Parameters": found, "InvalidParameters": names[1:10]}, {"Names": names[:10]}),
        ("get_parameters", {"Parameters": []}, {"Names": names[10:]}),
    )
    rows = account.ami_rows(client, "us-east-1", names, "2026-11-21")
    assert [(row["ssm_parameter"], row["ami_id"]) for row in rows] == [(names[0], "ami-1")]


def test_spot_prices_are_the_newest_of_each_zone(stubbed) -> None:
    from datetime import UTC, datetime

    from gpuproof.catalogue.refresh.ec2 import spot_rows

    def reading(zone: str, hour: int, price: str) -> Answer:
        at = datetime(2026, 11, 21, hour, tzinfo=UTC)
        return {"InstanceType": "g5.xlarge", "AvailabilityZone": zone, "Timestamp": at, "SpotPrice": price}

    history = [
        reading("us-east-1a", 1, "0.9"),
        reading("us-east-1a", 9, "0.4"),
        reading("us-east-1b", 2, "0.5"),
        {**reading("us-east-1b", 2, "0.01"), "InstanceType": "t3.nano"},
    ]
    client = stubbed("ec2", ("describe_spot_price_history", {"SpotPriceHistory": history}, ANY_REQUEST))
    now = datetime(2026, 11, 21, 12, tzinfo=UTC)
    (row,) = spot_rows(client, "us-east-1", ["g5.xlarge"], now, "2026-11-21")
    assert (row["usd_per_hour"], row["usd_per_hour_max"], row["market"]) == ("0.4", "0.5", "spot")


ANY_REQUEST = {"StartTime": ANY, "ProductDescriptions": ["Linux/UNIX"]}


def test_check_reports_a_changed_price_with_the_date_of_the_old_one() -> None:
    row = {
        "service": "ec2",
        "use": "compute",
        "instance_type": "g5.xlarge",
        "region": "us-east-1",
        "market": "on-demand",
        "usd_per_hour": "0.9",
        "usd_per_hour_max": "",
        "kind": "observed",
        "confidence": "high",
        "source": "aws-api",
        "as_of": "2026-11-21",
    }
    outcome = Outcome(Scope("ec2-prices", "us-east-1"), [row], None)
    (found,) = differences(Tables(), [outcome])
    assert found.text == "g5.xlarge: $1.006 (2026-07-20) is now $0.9"


def test_check_reports_new_and_removed_offerings() -> None:
    row = {
        "instance_type": "p9.large",
        "region": "us-east-1",
        "az_ids": "use1-az1",
        "source": "x",
        "as_of": "2026",
    }
    found = differences(Tables(), [Outcome(Scope("offerings", "us-east-1"), [row], None)])
    texts = [match.text for match in found]
    assert "p9.large: now offered" in texts
    assert "g5.xlarge: no longer offered" in texts


def test_refreshed_quotas_bring_code_and_limit_of_the_account(tmp_path) -> None:
    from gpuproof.catalogue.refresh.store import Store

    row = {
        "service": "sagemaker",
        "name": "ml.p5.4xlarge for training job usage",
        "code": "L-12345678",
        "region": "us-east-1",
        "value": "3",
        "as_of": "2026-11-21",
    }
    Store(tmp_path).save({Scope("quotas", "us-east-1"): [row]}, "2026-11-21")
    quota = Catalogue.load(refreshed=tmp_path).quota("ml.p5.4xlarge", use="training")
    assert quota is not None
    assert (quota.code, quota.limit) == ("L-12345678", 3.0)
    assert "--quota-code L-12345678" in quota.command
