"""Requests of `gpuproof cleanup` and `gpuproof cost` alone, which list what an account has. They change nothing.

The IAM policy of runs does without them.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from gpuproof.backends.aws.services.ec2 import EC2Calls
from gpuproof.backends.aws.services.sagemaker import NEWEST_FIRST, PAGE, SageMakerCalls
from gpuproof.backends.aws.services.scheduling import SchedulingCalls


class InventoryCalls(SageMakerCalls, EC2Calls, SchedulingCalls):
    """The client's methods for listing what costs money in an account."""

    def endpoints(self) -> Iterator[dict[str, Any]]:
        """Yield summaries of all endpoints."""
        yield from self._listed("list_endpoints", "Endpoints")

    def search_endpoints(self) -> dict[str, dict[str, Any]]:
        """The endpoints by name with their configuration, instance counts and tags, a hundred with each request.

        Results may be some seconds old, so that the newest endpoints may be missing.

        Source: botocore's service model, `SearchRecord.Endpoint`
        """
        results = self._items("sagemaker", "search", "Results", {"Resource": "Endpoint", "MaxResults": PAGE})
        return {
            result["Endpoint"]["EndpointName"]: result["Endpoint"]
            for result in results
            if "Endpoint" in result
        }

    def studio_apps(self) -> Iterator[dict[str, Any]]:
        """Yield summaries of the apps of all Studio domains, which contain their instance types."""
        yield from self._listed("list_apps", "Apps", newest_first=False)

    def studio_app(self, request: dict[str, str]) -> dict[str, Any] | None:
        """The description of an app, with the time of its last use; None if it does not exist."""
        return self._find("sagemaker", "describe_app", request, f"app {request['AppName']}")

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
        request = {"TransformJobName": name}
        return self._find("sagemaker", "describe_transform_job", request, f"transform job {name}")

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
        request = {"StatusEquals": "InProgress", **NEWEST_FIRST}
        yield from self._items("sagemaker", "list_training_jobs", "TrainingJobSummaries", request)

    def warm_pools(self) -> Iterator[dict[str, Any]]:
        """Yield summaries of the training jobs whose instances wait for a next job."""
        yield from self._listed(
            "list_training_jobs", "TrainingJobSummaries", WarmPoolStatusEquals="Available"
        )

    def clusters(self) -> Iterator[dict[str, Any]]:
        """Yield summaries of all HyperPod clusters."""
        yield from self._listed("list_clusters", "ClusterSummaries", newest_first=False)

    def cluster_nodes(self, name: str) -> list[dict[str, Any]]:
        """Summaries of the instances of a HyperPod cluster."""
        return list(
            self._listed("list_cluster_nodes", "ClusterNodeSummaries", newest_first=False, ClusterName=name)
        )

    def schedules(self, name_prefix: str) -> Iterator[dict[str, Any]]:
        """Yield summaries of the schedules of all groups whose names have a prefix."""
        yield from self._items("scheduler", "list_schedules", "Schedules", {"NamePrefix": name_prefix})

    def scaled_variants(self) -> Iterator[tuple[str, str]]:
        """Yield the endpoint and the variant of everything that Application Auto Scaling scales on SageMaker."""
        for target in self._scalable_targets({}):
            _, endpoint, _, variant = target["ResourceId"].split("/")
            yield endpoint, variant

    def tagged_security_groups(self, key: str, value: str) -> Iterator[dict[str, Any]]:
        """Yield descriptions of the security groups with a tag."""
        yield from self._security_groups({"Filters": [{"Name": f"tag:{key}", "Values": [value]}]})

    def volumes(self) -> Iterator[dict[str, Any]]:
        """Yield descriptions of all volumes."""
        yield from self._items("ec2", "describe_volumes", "Volumes", {})

    def enabled_regions(self) -> list[str]:
        """The regions that are enabled for the account, sorted."""
        regions = self._request("ec2", "describe_regions", {"AllRegions": False})["Regions"]
        return sorted(region["RegionName"] for region in regions)
