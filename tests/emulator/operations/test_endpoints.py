"""Weights of an endpoint's variants can be changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpuproof.emulator.operations import OPERATIONS
from gpuproof.emulator.protocol import AwsError
from gpuproof.emulator.store import Resource
from support.emulator_context import make_call, make_context


@pytest.fixture
def endpoint() -> Resource:
    variants = [
        {
            "VariantName": name,
            "CurrentWeight": 1.0,
            "DesiredWeight": 1.0,
            "CurrentInstanceCount": 1,
            "DesiredInstanceCount": 1,
        }
        for name in ("v1", "v2")
    ]
    document = {
        "EndpointName": "e",
        "EndpointConfigName": "c",
        "EndpointStatus": "InService",
        "ProductionVariants": variants,
    }
    return Resource("endpoint", "us-east-1", "e", document)


def test_weights_and_counts_change(tmp_path: Path, endpoint: Resource) -> None:
    _update(tmp_path, endpoint, {"VariantName": "v2", "DesiredWeight": 3.0, "DesiredInstanceCount": 4})
    first, second = endpoint.document["ProductionVariants"]
    assert (first["CurrentWeight"], first["CurrentInstanceCount"]) == (1.0, 1)
    assert (second["CurrentWeight"], second["DesiredWeight"], second["CurrentInstanceCount"]) == (3.0, 3.0, 4)


@pytest.mark.parametrize(
    ("names", "said"),
    [(["v1", "v1"], "non-unique"), (["v3"], 'variant name(s) "v3" is/are not present within')],
)
def test_unknown_and_duplicate_variants_are_rejected(
    tmp_path: Path, endpoint: Resource, names: list[str], said: str
) -> None:
    with pytest.raises(AwsError) as caught:
        _update(tmp_path, endpoint, *({"VariantName": name, "DesiredWeight": 1.0} for name in names))
    assert said in caught.value.message


def test_an_endpoint_that_is_being_created_is_not_changed(tmp_path: Path, endpoint: Resource) -> None:
    endpoint.document["EndpointStatus"] = "Creating"
    with pytest.raises(AwsError, match="Cannot update in-progress endpoint"):
        _update(tmp_path, endpoint, {"VariantName": "v1", "DesiredWeight": 1.0})


def test_a_serverless_variant_has_one_of_awss_memory_sizes(tmp_path: Path) -> None:
    variant = {"VariantName": "v", "ServerlessConfig": {"MemorySizeInMB": 1000, "MaxConcurrency": 1}}
    request = {"EndpointConfigName": "c", "ProductionVariants": [variant]}
    with pytest.raises(
        AwsError, match=r"'1000' at 'memorySizeInMB' .* \[1024, 2048, 3072, 4096, 5120, 6144\]"
    ):
        OPERATIONS["CreateEndpointConfig"](make_call(make_context(tmp_path), request))


def _update(folder: Path, endpoint: Resource, *changes: dict[str, Any]) -> None:
    context = make_context(folder)
    context.store.add(endpoint)
    request = {"EndpointName": "e", "DesiredWeightsAndCapacities": list(changes)}
    OPERATIONS["UpdateEndpointWeightsAndCapacities"](make_call(context, request))
