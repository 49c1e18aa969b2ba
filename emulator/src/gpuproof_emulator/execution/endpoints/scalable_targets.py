"""The scalable targets of Application Auto Scaling that are variants of an endpoint."""

from __future__ import annotations

from typing import Any

from gpuproof_emulator.clients import Clients


def scaled_variants(clients: Clients, region: str, endpoint: str) -> list[str]:
    """The names of an endpoint's variants that are scalable targets."""
    return [target["ResourceId"].rpartition("/")[2] for target in _targets(clients, region, endpoint)]


def deregister(clients: Clients, region: str, endpoint: str) -> None:
    """Deregister the scalable targets of an endpoint, as its deletion does.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/endpoint-delete-with-scaling.html
    """
    client = clients.get("application-autoscaling", region)
    for target in _targets(clients, region, endpoint):
        of_target = {name: target[name] for name in ("ServiceNamespace", "ResourceId", "ScalableDimension")}
        client.deregister_scalable_target(**of_target)


def _targets(clients: Clients, region: str, endpoint: str) -> list[dict[str, Any]]:
    client = clients.get("application-autoscaling", region)
    pages = client.get_paginator("describe_scalable_targets").paginate(ServiceNamespace="sagemaker")
    prefix = f"endpoint/{endpoint}/variant/"
    return [
        target
        for page in pages
        for target in page["ScalableTargets"]
        if target["ResourceId"].startswith(prefix)
    ]
