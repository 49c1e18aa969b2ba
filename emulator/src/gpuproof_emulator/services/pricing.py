"""The AWS Price List API, with the prices in the catalogue."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

from gpuproof.catalogue.model import Price
from gpuproof.catalogue.prices import on_demand_prices
from gpuproof.catalogue.storage_prices import StoragePrice
from gpuproof_emulator.context import Context
from gpuproof_emulator.moto_journal import Journal
from gpuproof_emulator.operations.list import page
from gpuproof_emulator.protocol import AwsError, AwsRequest, AwsResponse, json_response

OPERATIONS = ("GetProducts", "DescribeServices", "GetAttributeValues")

_SERVICES = {"AmazonSageMaker": "sagemaker", "AmazonEC2": "ec2"}
# Prefixes of SageMaker's usage types: `Train:ml.g5.xlarge`.
_USAGE = {
    "training": "Train",
    "endpoint": "Host",
    "processing": "Processing",
    "transform": "Tsform",
    "notebook": "Notebk",
    "studio": "Studio",
    "cluster": "Cluster",
}
_EC2 = {
    "instanceFamily": "GPU instance",
    "operatingSystem": "Linux",
    "preInstalledSw": "NA",
    "tenancy": "Shared",
    "capacitystatus": "Used",
}

_FAMILIES = {"gb": "Storage", "iops": "System Operation", "mibps": "Provisioned Throughput"}
_UNITS = {"gb": "GB-Mo", "iops": "IOPS-Mo", "mibps": "MiBps-Mo"}

_Product = tuple[dict[str, str], float, str]
"""Attributes, price in USD, and the unit that it is for."""


def handle(_context: Context, _journal: Journal, request: AwsRequest) -> AwsResponse:
    """Handle any of the operations."""
    document = request.document()
    services = {code: name for code, name in _SERVICES.items() if document.get("ServiceCode") in (None, code)}
    if not services:
        raise AwsError("NotFoundException", f"This emulator has no prices for {document['ServiceCode']}.")
    if request.target[1] == "DescribeServices":
        described = [
            {
                "ServiceCode": code,
                "AttributeNames": sorted({key for item in _products(name) for key in item[0]}),
            }
            for code, name in services.items()
        ]
        return json_response(request, {**page("Services", described, document), "FormatVersion": "aws_v1"})
    found = [item for name in services.values() for item in _products(name)]
    if request.target[1] == "GetAttributeValues":
        values = sorted({item[0].get(document["AttributeName"], "") for item in found} - {""})
        return json_response(
            request,
            page("AttributeValues", [{"Value": value} for value in values], {"MaxResults": 100, **document}),
        )
    filters = [(item["Field"], item["Value"]) for item in document.get("Filters") or ()]
    matching = [item for item in found if all(item[0].get(field) == value for field, value in filters)]
    listed = page(
        "PriceList", [{"text": _product_json(*item)} for item in matching], {"MaxResults": 100, **document}
    )
    listed["PriceList"] = [item["text"] for item in listed["PriceList"]]
    return json_response(request, {**listed, "FormatVersion": "aws_v1"})


@cache
def _products(service: str) -> list[_Product]:
    from gpuproof.catalogue.tables import Tables  # reads files, so only on first use

    tables = Tables()
    instances = [
        (attributes, price.usd_per_hour, "Hrs")
        for region in tables.priced_regions
        for price in on_demand_prices(tables.prices(region), tables.sagemaker_ratios, service)
        for attributes in _attributes(price)
    ]
    storage = [
        (_storage_attributes(price), price.usd_per_month, _UNITS[price.unit])
        for tiers in tables.storage_prices.values()
        for price in tiers
        if price.service == service
    ]
    return [*instances, *storage]


def _storage_attributes(price: StoragePrice) -> dict[str, str]:
    from gpuproof.catalogue.refresh.pricing import EBS_USAGE  # as above

    if price.service == "sagemaker":
        return {"regionCode": price.region, "usagetype": f"{_USAGE[price.use]}:VolumeUsage.gp2"}
    usage = {what: name for name, what in EBS_USAGE.items()}
    return {
        "regionCode": price.region,
        "productFamily": _FAMILIES[price.unit],
        "volumeApiName": price.volume_type,
        "usagetype": f"EBS:{usage[price.volume_type, price.unit, price.above]}",
    }


def _attributes(price: Price) -> Iterator[dict[str, str]]:
    common = {"regionCode": price.region, "instanceType": price.instance_type}
    if price.service == "ec2":
        yield {**common, **_EC2, "usagetype": f"BoxUsage:{price.instance_type}"}
        return
    for use in _USAGE if price.use == "any" else (price.use,):
        if use in _USAGE:
            yield {
                **common,
                "instanceName": price.instance_type,
                "usagetype": f"{_USAGE[use]}:{price.instance_type}",
            }


def _product_json(attributes: dict[str, str], usd: float, unit: str) -> str:
    dimension: dict[str, Any] = {"unit": unit, "pricePerUnit": {"USD": f"{usd:.10f}"}}
    return json.dumps(
        {
            "product": {"attributes": attributes},
            "terms": {"OnDemand": {"term": {"priceDimensions": {"price": dimension}}}},
        }
    )
