"""Requests that list what an account has on SageMaker, volumes, and schedules. They change nothing."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from gpuproof.backends.aws.errors import AwsRefused
from gpuproof.backends.aws.session import AwsSession

_PAGE = 100
"""The largest `MaxResults` of SageMaker's listings."""

_UNSORTED = ("list_clusters", "list_cluster_nodes", "list_apps")
"""Listings that are not requested in an order; the others are sorted, so that pages do not overlap."""


class InventoryCalls(AwsSession):
    """The client's methods for listing resources of SageMaker, EC2 and EventBridge Scheduler."""

    def endpoints(self) -> Iterator[dict[str, Any]]:
        """Yield summaries of all endpoints."""
        yield from self._listed("list_endpoints", "Endpoints")

    def search_endpoints(self) -> dict[str, dict[str, Any]]:
        """The endpoints by name with their configuration, instance counts and tags, a hundred with each request.

        Results may be some seconds old, so that the newest endpoints may be missing.

        Source: botocore's service model, `SearchRecord.Endpoint`
        """
        request = {"Resource": "Endpoint", "MaxResults": _PAGE}
        return {
            one["Endpoint"]["EndpointName"]: one["Endpoint"]
            for page in self._pages("sagemaker", "search", request)
            for one in page.get("Results", ())
            if "Endpoint" in one
        }

    def notebook_lifecycle_configs(self, name_contains: str) -> Iterator[dict[str, Any]]:
        """Yield summaries of the lifecycle configurations of notebook instances whose names contain a text."""
        yield from self._listed(
            "list_notebook_instance_lifecycle_configs",
            "NotebookInstanceLifecycleConfigs",
            NameContains=name_contains,
        )

    def studio_apps(self) -> Iterator[dict[str, Any]]:
        """Yield summaries of the apps of all Studio domains, which contain their instance types."""
        yield from self._listed("list_apps", "Apps")

    def studio_app(self, request: dict[str, str]) -> dict[str, Any] | None:
        """The description of an app, with the time of its last use; None if it does not exist.

        Args:
            request: of DescribeApp.
        """
        return self._described("describe_app", request, f"app {request['AppName']}")

    def transform_jobs(
        self, status: str | None = None, *, created_after: float | None = None
    ) -> Iterator[dict[str, Any]]:
        """Yield summaries of batch transform jobs, newest first.

        Args:
            status: such as `InProgress`; any if None.
            created_after: seconds since the epoch.
        """
        request: dict[str, Any] = {} if status is None else {"StatusEquals": status}
        if created_after is not None:
            request["CreationTimeAfter"] = datetime.fromtimestamp(created_after, UTC)
        yield from self._listed("list_transform_jobs", "TransformJobSummaries", **request)

    def transform_job(self, name: str) -> dict[str, Any] | None:
        """The description of a batch transform job; None if it does not exist."""
        return self._described("describe_transform_job", {"TransformJobName": name}, f"transform job {name}")

    def tuning_jobs(self, status: str) -> Iterator[dict[str, Any]]:
        """Yield summaries of the tuning jobs with a status, such as `InProgress`."""
        yield from self._listed(
            "list_hyper_parameter_tuning_jobs", "HyperParameterTuningJobSummaries", StatusEquals=status
        )

    def running_training_jobs(self) -> Iterator[dict[str, Any]]:
        """Yield summaries of the training jobs in progress.

        With a page size, SageMaker would page through all jobs that the account ever had: it filters by status afterwards.

        Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ListTrainingJobs.html
        """
        request = {"StatusEquals": "InProgress", "SortBy": "CreationTime", "SortOrder": "Descending"}
        for page in self._pages("sagemaker", "list_training_jobs", request):
            yield from page["TrainingJobSummaries"]

    def warm_pools(self) -> Iterator[dict[str, Any]]:
        """Yield summaries of the training jobs whose instances wait for a next job."""
        yield from self._listed(
            "list_training_jobs", "TrainingJobSummaries", WarmPoolStatusEquals="Available"
        )

    def clusters(self) -> Iterator[dict[str, Any]]:
        """Yield summaries of all HyperPod clusters."""
        yield from self._listed("list_clusters", "ClusterSummaries")

    def cluster_nodes(self, name: str) -> list[dict[str, Any]]:
        """Summaries of the instances of a HyperPod cluster."""
        return list(self._listed("list_cluster_nodes", "ClusterNodeSummaries", ClusterName=name))

    def schedules(self, name_prefix: str) -> Iterator[dict[str, Any]]:
        """Yield summaries of the schedules of EventBridge Scheduler whose names have a prefix, of all groups."""
        for page in self._pages("scheduler", "list_schedules", {"NamePrefix": name_prefix}):
            yield from page["Schedules"]

    def scaled_variants(self) -> Iterator[tuple[str, str]]:
        """Yield the endpoint and the variant of everything that Application Auto Scaling scales on SageMaker."""
        request = {
            "ServiceNamespace": "sagemaker",
            "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
        }
        for page in self._pages("application-autoscaling", "describe_scalable_targets", request):
            for target in page["ScalableTargets"]:
                _, endpoint, _, variant = target["ResourceId"].split("/")
                yield endpoint, variant

    def tagged_security_groups(self, key: str, value: str) -> Iterator[dict[str, Any]]:
        """Yield descriptions of the security groups with a tag."""
        request = {"Filters": [{"Name": f"tag:{key}", "Values": [value]}]}
        for page in self._pages("ec2", "describe_security_groups", request):
            yield from page["SecurityGroups"]

    def volumes(self) -> Iterator[dict[str, Any]]:
        """Yield descriptions of all volumes."""
        for page in self._pages("ec2", "describe_volumes", {}):
            yield from page["Volumes"]

    def enabled_regions(self) -> list[str]:
        """The regions that are enabled for the account, sorted."""
        found = self._request("ec2", "describe_regions", {"AllRegions": False})["Regions"]
        return sorted(one["RegionName"] for one in found)

    def _listed(self, operation: str, member: str, **request: Any) -> Iterator[dict[str, Any]]:
        order = {} if operation in _UNSORTED else {"SortBy": "CreationTime", "SortOrder": "Descending"}
        for page in self._pages("sagemaker", operation, {"MaxResults": _PAGE, **order, **request}):
            yield from page.get(member, ())

    def _described(self, operation: str, request: dict[str, Any], subject: str) -> dict[str, Any] | None:
        try:
            return self._request("sagemaker", operation, request, subject)
        except AwsRefused as refused:
            if is_missing(refused):
                return None
            raise


def is_missing(refused: AwsRefused) -> bool:
    """Whether SageMaker answered that a resource does not exist."""
    if refused.code in ("ResourceNotFound", "ResourceNotFoundException"):
        return True
    text = refused.aws_message.lower()
    return refused.code == "ValidationException" and any(
        one in text for one in ("not found", "could not find", "does not exist", "recordnotfound")
    )
