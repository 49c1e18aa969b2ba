"""The Pricing API, with the prices that the catalogue ships."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

from gpuproof.catalogue.model import Price
from gpuproof.emulator.emulator import Emulator
from gpuproof.emulator.operations.list import page
from gpuproof.emulator.protocol import Answer, AwsError, AwsRequest, json_answer

OPERATIONS = ("GetProducts", "DescribeServices", "GetAttributeValues")

_SERVICES = {"AmazonSageMaker": "sagemaker", "AmazonEC2": "ec2"}
# Words of SageMaker's usage types: `Train:ml.g5.xlarge`.
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


def answer(emulator: Emulator, request: AwsRequest) -> Answer:
    """Answer one of the operations."""
    del emulator
    document = request.document()
    services = {code: name for code, name in _SERVICES.items() if document.get("ServiceCode") in (None, code)}
    if not services:
        raise AwsError("NotFoundException", f"There are no prices of {document['ServiceCode']} here.")
    if request.target[1] == "DescribeServices":
        told = [
            {
                "ServiceCode": code,
                "AttributeNames": sorted({key for item in _products(name) for key in item[0]}),
            }
            for code, name in services.items()
        ]
        return json_answer(request, {**page("Services", told, document), "FormatVersion": "aws_v1"})
    found = [item for name in services.values() for item in _products(name)]
    if request.target[1] == "GetAttributeValues":
        values = sorted({item[0].get(document["AttributeName"], "") for item in found} - {""})
        return json_answer(
            request,
            page("AttributeValues", [{"Value": value} for value in values], {"MaxResults": 100, **document}),
        )
    wanted = [(item["Field"], item["Value"]) for item in document.get("Filters") or ()]
    fitting = [item for item in found if all(item[0].get(field) == value for field, value in wanted)]
    listed = page(
        "PriceList", [{"text": _product(*item)} for item in fitting], {"MaxResults": 100, **document}
    )
    listed["PriceList"] = [item["text"] for item in listed["PriceList"]]
    return json_answer(request, {**listed, "FormatVersion": "aws_v1"})


@cache
def _products(service: str) -> list[tuple[dict[str, str], float]]:
    from gpuproof.catalogue.tables import Tables  # files, read where prices are asked for

    prices = (price for price in Tables().prices.values() if price.service == service)
    return [
        (attributes, price.usd_per_hour)
        for price in prices
        if price.market == "on-demand"
        for attributes in _attributes(price)
    ]


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


def _product(attributes: dict[str, str], usd: float) -> str:
    dimension: dict[str, Any] = {"unit": "Hrs", "pricePerUnit": {"USD": f"{usd:.10f}"}}
    return json.dumps(
        {
            "product": {"attributes": attributes},
            "terms": {"OnDemand": {"term": {"priceDimensions": {"hour": dimension}}}},
        }
    )
