"""Requests to SageMaker: jobs, endpoints, notebook instances, and what else costs money in an account."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Literal

from gpuproof.backends.aws.errors import AwsRefused
from gpuproof.backends.aws.session import AwsSession

SageMakerKind = Literal["training", "processing"]

_DESCRIBE = {"training": "describe_training_job", "processing": "describe_processing_job"}
_LIST = {"training": "list_training_jobs", "processing": "list_processing_jobs"}
_STOP = {"training": "stop_training_job", "processing": "stop_processing_job"}
_NAME = {"training": "TrainingJobName", "processing": "ProcessingJobName"}
_STATUS = {"training": "TrainingJobStatus", "processing": "ProcessingJobStatus"}
_SUMMARIES = {"training": "TrainingJobSummaries", "processing": "ProcessingJobSummaries"}
PAGE = 100
"""The largest `MaxResults` of SageMaker's listings."""
NEWEST_FIRST = {"SortBy": "CreationTime", "SortOrder": "Descending"}
"""With an order, pages do not overlap."""


class JobCalls(AwsSession):
    """The client's methods for training, processing and transform jobs."""

    def describe_job(self, kind: SageMakerKind, name: str) -> dict[str, Any] | None:
        """The description of a job; None if it does not exist."""
        return self._find("sagemaker", _DESCRIBE[kind], {_NAME[kind]: name}, f"{kind} job {name}")

    def list_jobs(
        self,
        kind: SageMakerKind,
        *,
        name_contains: str | None = None,
        created_after: float | None = None,
        status: str | None = None,
        limit: int | None = None,
    ) -> Iterator[dict[str, Any]]:
        """Yield summaries of jobs, newest first; pages are requested as needed.

        Args:
            created_after: seconds since the epoch.
            status: such as `InProgress`; any if None.
            limit: maximum number of jobs.
        """
        request: dict[str, Any] = {
            **NEWEST_FIRST,
            "MaxResults": PAGE if limit is None else max(1, min(PAGE, limit)),
        }
        if name_contains:
            request["NameContains"] = name_contains
        if created_after is not None:
            request["CreationTimeAfter"] = datetime.fromtimestamp(created_after, UTC)
        if status is not None:
            request["StatusEquals"] = status
        yield from islice(self._items("sagemaker", _LIST[kind], _SUMMARIES[kind], request), limit)

    def search_training_jobs(self, tag: str) -> Iterator[dict[str, Any]]:
        """Yield descriptions of training jobs with a tag of that key, newest first; results may be some seconds old."""
        request: dict[str, Any] = {
            "Resource": "TrainingJob",
            "SearchExpression": {"Filters": [{"Name": f"Tags.{tag}", "Operator": "Exists"}]},
            **NEWEST_FIRST,
            "MaxResults": PAGE,
        }
        for result in self._items("sagemaker", "search", "Results", request):
            if "TrainingJob" in result:
                yield result["TrainingJob"]

    def stop_job(self, kind: SageMakerKind, name: str) -> None:
        """Request that a job stops; no error if it has ended or is stopping."""
        try:
            self._request("sagemaker", _STOP[kind], {_NAME[kind]: name}, f"{kind} job {name}")
        except AwsRefused as refused:
            if refused.code != "ValidationException":
                raise
            job = self.describe_job(kind, name)
            if job is None or job[_STATUS[kind]] == "InProgress":
                raise

    def tags(self, arn: str) -> dict[str, str]:
        """The tags of a SageMaker resource."""
        tags = self._items("sagemaker", "list_tags", "Tags", {"ResourceArn": arn}, arn)
        return {tag["Key"]: tag["Value"] for tag in tags}

    def add_tags(self, arn: str, tags: Mapping[str, str]) -> None:
        """Add tags to a SageMaker resource."""
        request = {"ResourceArn": arn, "Tags": [{"Key": key, "Value": value} for key, value in tags.items()]}
        self._request("sagemaker", "add_tags", request, arn)

    def _listed(
        self, operation: str, member: str, *, newest_first: bool = True, **request: Any
    ) -> Iterator[dict[str, Any]]:
        order = NEWEST_FIRST if newest_first else {}
        yield from self._items("sagemaker", operation, member, {"MaxResults": PAGE, **order, **request})


class EndpointCalls(JobCalls):
    """The client's methods for models, endpoint configurations and endpoints."""

    def describe_endpoint(self, name: str) -> dict[str, Any] | None:
        """The description of an endpoint; None if it does not exist."""
        return self._find("sagemaker", "describe_endpoint", {"EndpointName": name}, f"endpoint {name}")

    def describe_endpoint_config(self, name: str) -> dict[str, Any] | None:
        """The description of an endpoint configuration; None if it does not exist."""
        request = {"EndpointConfigName": name}
        return self._find("sagemaker", "describe_endpoint_config", request, f"endpoint configuration {name}")

    def describe_model(self, name: str) -> dict[str, Any] | None:
        """The description of a model; None if it does not exist."""
        return self._find("sagemaker", "describe_model", {"ModelName": name}, f"model {name}")

    def endpoint_configs(self, name_contains: str | None = None) -> Iterator[dict[str, Any]]:
        """Yield summaries of the endpoint configurations whose names contain a text; of all if None."""
        yield from self._listed("list_endpoint_configs", "EndpointConfigs", **_containing(name_contains))

    def models(self, name_contains: str | None = None) -> Iterator[dict[str, Any]]:
        """Yield summaries of the models whose names contain a text; of all if None."""
        yield from self._listed("list_models", "Models", **_containing(name_contains))


class NotebookCalls(JobCalls):
    """The client's methods for notebook instances and their lifecycle configurations."""

    def describe_notebook(self, name: str) -> dict[str, Any] | None:
        """The description of a notebook instance; None if it does not exist."""
        request = {"NotebookInstanceName": name}
        return self._find("sagemaker", "describe_notebook_instance", request, f"notebook instance {name}")

    def list_notebooks(
        self, *, status: str | None = None, lifecycle_config: str | None = None
    ) -> Iterator[dict[str, Any]]:
        """Yield summaries of notebook instances, newest first.

        Args:
            status: such as `InService`; any if None.
            lifecycle_config: the lifecycle configuration that they use.
        """
        request: dict[str, Any] = {}
        if status is not None:
            request["StatusEquals"] = status
        if lifecycle_config is not None:
            request["NotebookInstanceLifecycleConfigNameContains"] = lifecycle_config
        for summary in self._listed("list_notebook_instances", "NotebookInstances", **request):
            if lifecycle_config in (None, summary.get("NotebookInstanceLifecycleConfigName")):
                yield summary

    def start_notebook(self, name: str) -> None:
        """Start a notebook instance that is stopped."""
        self._change_notebook("start_notebook_instance", name)

    def stop_notebook(self, name: str) -> None:
        """Stop a notebook instance that is in service."""
        self._change_notebook("stop_notebook_instance", name)

    def delete_notebook(self, name: str) -> None:
        """Delete a notebook instance that is stopped or has failed."""
        self._change_notebook("delete_notebook_instance", name)

    def notebook_url(self, name: str) -> str:
        """An address that opens a notebook instance; valid for five minutes, without a sign-in."""
        return self._change_notebook("create_presigned_notebook_instance_url", name)["AuthorizedUrl"]

    def describe_lifecycle_config(self, name: str) -> dict[str, Any] | None:
        """The description of a lifecycle configuration of notebook instances; None if it does not exist."""
        return self._lifecycle_config("describe_notebook_instance_lifecycle_config", name)

    def lifecycle_configs(self, name_contains: str) -> Iterator[dict[str, Any]]:
        """Yield summaries of the lifecycle configurations of notebook instances whose names contain a text."""
        yield from self._listed(
            "list_notebook_instance_lifecycle_configs",
            "NotebookInstanceLifecycleConfigs",
            NameContains=name_contains,
        )

    def delete_lifecycle_config(self, name: str) -> None:
        """Delete a lifecycle configuration; no error if it does not exist."""
        self._lifecycle_config("delete_notebook_instance_lifecycle_config", name)

    def _change_notebook(self, operation: str, name: str) -> dict[str, Any]:
        return self._request(
            "sagemaker", operation, {"NotebookInstanceName": name}, f"notebook instance {name}"
        )

    def _lifecycle_config(self, operation: str, name: str) -> dict[str, Any] | None:
        request = {"NotebookInstanceLifecycleConfigName": name}
        return self._find("sagemaker", operation, request, f"lifecycle configuration {name}")


class SageMakerCalls(EndpointCalls, NotebookCalls):
    """The client's methods for SageMaker."""


def _containing(name: str | None) -> dict[str, Any]:
    return {} if name is None else {"NameContains": name}
