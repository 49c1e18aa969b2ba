"""Reads on-demand prices of EC2 and SageMaker from the price list (Pricing GetProducts)."""

import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from gpuproof.catalogue.csv_rows import Row
from gpuproof.catalogue.refresh.ec2 import price_row

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


def use_and_type(attributes: Mapping[str, str]) -> tuple[str, str] | None:
    """Returns job kind and instance type of a SageMaker product; None if it is no instance (storage, data)."""
    usage = re.fullmatch(r"(?:[A-Z0-9]+-)?(\w+):(?:\w+-)?(ml\.[\w.-]+)", attributes.get("usagetype", ""))
    component = attributes.get("component") or attributes.get("platoinstancetype") or ""
    use = USAGE.get(usage[1]) if usage else None
    use = use or COMPONENTS.get(re.sub(r"[^a-z]", "", component.lower()))
    name = usage[2] if usage else attributes.get("instanceName") or attributes.get("platoinstancename") or ""
    return (use, name) if use and name.startswith("ml.") else None


def _products(client: Any, service: str, wanted: Mapping[str, str]) -> Iterator[tuple[dict[str, str], float]]:
    filters = [{"Type": "TERM_MATCH", "Field": field, "Value": value} for field, value in wanted.items()]
    for page in client.get_paginator("get_products").paginate(ServiceCode=service, Filters=filters):
        for text in page["PriceList"]:
            product = json.loads(text)
            usd = _hourly(product)
            if usd:
                yield product["product"]["attributes"], usd


def _hourly(product: Mapping[str, Any]) -> float | None:
    terms = product.get("terms", {}).get("OnDemand", {}).values()
    dimensions = (dimension for term in terms for dimension in term["priceDimensions"].values())
    hourly = (one for one in dimensions if one.get("unit", "").lower() in ("hrs", "hours", "hour"))
    return next((float(one["pricePerUnit"]["USD"]) for one in hourly if "USD" in one["pricePerUnit"]), None)
