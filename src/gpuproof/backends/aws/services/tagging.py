"""Requests to the Resource Groups Tagging API."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from gpuproof.backends.aws.session import AwsSession

JOBS = ("sagemaker:training-job", "sagemaker:processing-job")
_VALUES_AT_A_TIME = 20
"""Source: https://docs.aws.amazon.com/resourcegroupstagging/latest/APIReference/API_TagFilter.html"""


class TaggingCalls(AwsSession):
    """The client's method for finding resources by tag."""

    def tagged(
        self, key: str, values: Sequence[str] = (), resource_types: Sequence[str] = JOBS
    ) -> Iterator[tuple[str, dict[str, str]]]:
        """Yield the ARN and all tags of each resource with a tag, unordered. New tags may be missing for some seconds.

        Args:
            values: accepted values; any if empty.
        """
        for start in range(0, len(values) or 1, _VALUES_AT_A_TIME):
            some = values[start : start + _VALUES_AT_A_TIME]
            request = {
                "TagFilters": [{"Key": key, "Values": list(some)}],
                "ResourceTypeFilters": list(resource_types),
            }
            yield from self._mappings(request)

    def resource_tags(self, resource_types: Sequence[str]) -> dict[str, dict[str, str]]:
        """The tags of all tagged resources of some types, by ARN, a hundred with each request.

        Args:
            resource_types: such as `sagemaker:endpoint`.
        """
        request = {"ResourceTypeFilters": list(resource_types), "ResourcesPerPage": 100}
        return dict(self._mappings(request))

    def _mappings(self, request: dict[str, Any]) -> Iterator[tuple[str, dict[str, str]]]:
        service, operation, member = "resourcegroupstaggingapi", "get_resources", "ResourceTagMappingList"
        for mapping in self._items(service, operation, member, request):
            yield mapping["ResourceARN"], {tag["Key"]: tag["Value"] for tag in mapping.get("Tags", ())}
