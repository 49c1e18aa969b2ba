"""Reads data of one account and day: its quotas, and the ids of the newest AMIs."""

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from gpuproof.catalogue.csv_rows import Row

SSM_BATCH = 10
"""Maximum number of names per GetParameters call."""


def quota_rows(
    client: Any, region: str, ec2_names: Collection[str], types: Collection[str], as_of: str
) -> list[Row]:
    """The account's quotas for types with GPUs (Service Quotas ListServiceQuotas).

    Args:
        ec2_names: EC2 quotas by name.
        types: EC2 types; on SageMaker, every quota whose name contains one of them as `ml.TYPE`.
    """
    ml_types = {f"ml.{name}" for name in types}

    def counts(service: str, name: str) -> bool:
        return name in ec2_names if service == "ec2" else any(word in ml_types for word in name.split())

    return [
        {
            "service": service,
            "name": quota["QuotaName"],
            "code": quota["QuotaCode"],
            "region": region,
            "value": f"{quota['Value']:g}",
            "as_of": as_of,
        }
        for service in ("ec2", "sagemaker")
        for page in client.get_paginator("list_service_quotas").paginate(ServiceCode=service)
        for quota in page["Quotas"]
        if counts(service, quota["QuotaName"])
    ]


def ami_rows(client: Any, region: str, parameters: Sequence[str], as_of: str) -> list[Row]:
    """Ids of the newest AMIs in the SSM parameters (GetParameters); missing parameters are skipped."""
    return [
        {"ssm_parameter": parameter["Name"], "region": region, "ami_id": parameter["Value"], "as_of": as_of}
        for names in _batches(parameters)
        for parameter in client.get_parameters(Names=names)["Parameters"]
    ]


def _batches(parameters: Sequence[str]) -> Iterator[list[str]]:
    for start in range(0, len(parameters), SSM_BATCH):
        yield list(parameters[start : start + SSM_BATCH])
