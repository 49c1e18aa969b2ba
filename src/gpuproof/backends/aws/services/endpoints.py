"""Requests to SageMaker about models, endpoint configurations and endpoints."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from gpuproof.backends.aws.errors import AwsRefused
from gpuproof.backends.aws.session import AwsSession

_PAGE = 100
"""The largest `MaxResults` of SageMaker's listings."""
_NO_SUCH = re.compile(r"not found|could not find|does not exist", re.IGNORECASE)


class EndpointCalls(AwsSession):
    """The client's methods for endpoints."""

    def describe_endpoint(self, name: str) -> dict[str, Any] | None:
        """The description of an endpoint; None if it does not exist."""
        return self._found("describe_endpoint", {"EndpointName": name}, f"endpoint {name}")

    def describe_endpoint_config(self, name: str) -> dict[str, Any] | None:
        """The description of an endpoint configuration; None if it does not exist."""
        return self._found(
            "describe_endpoint_config", {"EndpointConfigName": name}, f"endpoint configuration {name}"
        )

    def describe_model(self, name: str) -> dict[str, Any] | None:
        """The description of a model; None if it does not exist."""
        return self._found("describe_model", {"ModelName": name}, f"model {name}")

    def endpoint_configs(self, name_contains: str | None = None) -> Iterator[dict[str, Any]]:
        """Yield summaries of the endpoint configurations whose names contain a text; of all if None."""
        yield from self._named("list_endpoint_configs", "EndpointConfigs", name_contains)

    def models(self, name_contains: str | None = None) -> Iterator[dict[str, Any]]:
        """Yield summaries of the models whose names contain a text; of all if None."""
        yield from self._named("list_models", "Models", name_contains)

    def _named(self, operation: str, member: str, name_contains: str | None) -> Iterator[dict[str, Any]]:
        # Sorted, so that pages do not overlap.
        request: dict[str, Any] = {"MaxResults": _PAGE, "SortBy": "CreationTime", "SortOrder": "Descending"}
        if name_contains is not None:
            request["NameContains"] = name_contains
        for page in self._pages("sagemaker", operation, request):
            yield from page[member]

    def _found(self, operation: str, request: dict[str, Any], subject: str) -> dict[str, Any] | None:
        try:
            return self._request("sagemaker", operation, request, subject)
        except AwsRefused as refused:
            if is_missing(refused):
                return None
            raise


def is_missing(refused: AwsRefused) -> bool:
    """Whether SageMaker, Application Auto Scaling or EventBridge Scheduler says that there is no such resource."""
    if refused.code in ("ResourceNotFound", "ResourceNotFoundException", "ObjectNotFoundException"):
        return True
    return refused.code == "ValidationException" and _NO_SUCH.search(refused.aws_message) is not None
