"""Reads on-demand prices of EC2 and SageMaker, and of their storage, from the price list (Pricing GetProducts)."""

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from gpuproof.catalogue.csv_rows import Row
from gpuproof.catalogue.refresh.ec2 import SOURCE, price_row
from gpuproof.catalogue.storage_prices import EBS, SAGEMAKER_STORAGE

PRICING_REGION = "us-east-1"
"""The Pricing API covers all regions, but has endpoints in only a few."""

EC2_FILTERS = {
    "operatingSystem": "Linux",
    "preInstalledSw": "NA",
    "tenancy": "Shared",
    "capacitystatus": "Used",
}
"""Without these filters the list includes dedicated hosts, reservations and other operating systems."""

USAGE = {
    "Train": "training",
    "Host": "endpoint",
    "Processing": "processing",
    "Tsform": "transform",
    "Notebk": "notebook",
    "Studio": "studio",
    "Cluster": "cluster",
}
"""The job kind for each of SageMaker's usage types (`USE1-Train:ml.g5.xlarge`)."""

COMPONENTS = {
    "training": "training",
    "hosting": "endpoint",
    "processing": "processing",
    "batchtransform": "transform",
    "notebook": "notebook",
    "studiojupyterlab": "studio",
    "cluster": "cluster",
}
"""The job kind for each `component` or `platoinstancetype` of a product, in lower case."""

EBS_FAMILIES = ("Storage", "System Operation", "Provisioned Throughput")
"""The product families of EBS: size, IOPS and throughput."""

EBS_USAGE = {
    "VolumeUsage": ("standard", "gb", 0),
    "VolumeUsage.gp2": ("gp2", "gb", 0),
    "VolumeUsage.gp3": ("gp3", "gb", 0),
    "VolumeUsage.piops": ("io1", "gb", 0),
    "VolumeUsage.io2": ("io2", "gb", 0),
    "VolumeUsage.st1": ("st1", "gb", 0),
    "VolumeUsage.sc1": ("sc1", "gb", 0),
    "VolumeP-IOPS.gp3": ("gp3", "iops", 3000),
    "VolumeP-IOPS.piops": ("io1", "iops", 0),
    "VolumeP-IOPS.io2": ("io2", "iops", 0),
    "VolumeP-IOPS.io2.tier2": ("io2", "iops", 32_000),
    "VolumeP-IOPS.io2.tier3": ("io2", "iops", 64_000),
    "VolumeP-Throughput.gp3": ("gp3", "mibps", 125),
}
"""Volume type, unit, and the number of units above which the price applies, for the usage types of EBS.

Sources: https://aws.amazon.com/ebs/pricing/ and the usage types of the EBS documentation for bills.
"""

_MONTHLY = {"gb-mo": 1.0, "gb-month": 1.0, "iops-mo": 1.0, "mibps-mo": 1.0, "gibps-mo": 1024.0}
"""By what a monthly price is divided for that of a GiB, an operation per second or a MiB per second."""


def ec2_rows(client: Any, region: str, types: Collection[str], as_of: str) -> list[Row]:
    """On-demand prices of the types that a region offers."""
    rows: dict[str, Row] = {}
    for attributes, usd in _products(client, "AmazonEC2", {"regionCode": region, **EC2_FILTERS}):
        name = attributes.get("instanceType", "")
        if name in types:
            rows[name] = price_row("ec2", "compute", name, region, "on-demand", usd, as_of)
    return [rows[name] for name in sorted(rows)]


def sagemaker_rows(client: Any, region: str, as_of: str) -> list[Row]:
    """On-demand prices of `ml.` types, by use."""
    rows: dict[tuple[str, str], Row] = {}
    for attributes, usd in _products(client, "AmazonSageMaker", {"regionCode": region}):
        found = use_and_type(attributes)
        if found:
            rows[found] = price_row("sagemaker", *found, region, "on-demand", usd, as_of)
    return [rows[key] for key in sorted(rows)]


def storage_rows(client: Any, region: str, as_of: str) -> list[Row]:
    """Prices of EBS volumes, and of the storage of SageMaker's notebook instances and training jobs."""
    rows: dict[tuple[str, str, str, int], Row] = {}

    def add(service: str, use: str, name: str, unit: str, above: int, usd: float) -> None:
        key = (use, name, unit, above)
        # SageMaker may list several generations of the same storage.
        if key not in rows or float(rows[key]["usd_per_month"]) < usd:
            rows[key] = {
                "service": service,
                "use": use,
                "volume_type": name,
                "unit": unit,
                "above": str(above),
                "region": region,
                "usd_per_month": f"{usd:g}",
                "kind": "observed",
                "confidence": "high",
                "source": SOURCE,
                "as_of": as_of,
            }

    for family in EBS_FAMILIES:
        wanted = {"regionCode": region, "productFamily": family}
        for attributes, usd in _products(client, "AmazonEC2", wanted, _monthly):
            # Local zones have a second prefix: USE1-BOS1-EBS:VolumeUsage.gp3.
            usage = re.fullmatch(r"(?:[A-Z0-9]+-)?EBS:(.+)", attributes.get("usagetype", ""))
            if usage and usage[1] in EBS_USAGE:
                add("ec2", EBS, *EBS_USAGE[usage[1]], usd)
    for attributes, usd in _products(client, "AmazonSageMaker", {"regionCode": region}, _monthly):
        usage = re.fullmatch(r"(?:[A-Z0-9]+-)?(\w+):VolumeUsage\.gp\d", attributes.get("usagetype", ""))
        if usage and USAGE.get(usage[1]) in ("notebook", "training"):
            add("sagemaker", USAGE[usage[1]], SAGEMAKER_STORAGE, "gb", 0, usd)
    return [rows[key] for key in sorted(rows)]


def use_and_type(attributes: Mapping[str, str]) -> tuple[str, str] | None:
    """Returns job kind and instance type of a SageMaker product; None if it is no instance (storage, data)."""
    usage = re.fullmatch(r"(?:[A-Z0-9]+-)?(\w+):(?:\w+-)?(ml\.[\w.-]+)", attributes.get("usagetype", ""))
    component = attributes.get("component") or attributes.get("platoinstancetype") or ""
    use = USAGE.get(usage[1]) if usage else None
    use = use or COMPONENTS.get(re.sub(r"[^a-z]", "", component.lower()))
    name = usage[2] if usage else attributes.get("instanceName") or attributes.get("platoinstancename") or ""
    return (use, name) if use and name.startswith("ml.") else None


def _hourly(unit: str, usd: float) -> float | None:
    return usd if unit in ("hrs", "hours", "hour") else None


def _monthly(unit: str, usd: float) -> float | None:
    return usd / _MONTHLY[unit] if unit in _MONTHLY else None


def _products(
    client: Any,
    service: str,
    wanted: Mapping[str, str],
    read: Callable[[str, float], float | None] = _hourly,
) -> Iterator[tuple[dict[str, str], float]]:
    """Attributes and price of the products that have one.

    Args:
        read: returns the price from unit (in lower case) and USD; None for other units.
    """
    filters = [{"Type": "TERM_MATCH", "Field": field, "Value": value} for field, value in wanted.items()]
    for page in client.get_paginator("get_products").paginate(ServiceCode=service, Filters=filters):
        for text in page["PriceList"]:
            product = json.loads(text)
            usd = next((price for price in _on_demand(product, read) if price), None)
            if usd:
                yield product["product"]["attributes"], usd


def _on_demand(
    product: Mapping[str, Any], read: Callable[[str, float], float | None]
) -> Iterator[float | None]:
    """The prices of all ranges: what is included has a range with a price of 0."""
    for term in product.get("terms", {}).get("OnDemand", {}).values():
        for dimension in term["priceDimensions"].values():
            if "USD" in dimension["pricePerUnit"]:
                yield read(dimension.get("unit", "").lower(), float(dimension["pricePerUnit"]["USD"]))
