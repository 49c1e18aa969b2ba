"""Requests to SageMaker."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
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
_PAGE = 100
_NO_SUCH_JOB = re.compile(r"not found|could not find|does not exist", re.IGNORECASE)


class SageMakerCalls(AwsSession):
    """The client's methods for SageMaker."""

    def describe_job(self, kind: SageMakerKind, name: str) -> dict[str, Any] | None:
        """The description of a job; None if it does not exist."""
        try:
            return self._request("sagemaker", _DESCRIBE[kind], {_NAME[kind]: name}, f"{kind} job {name}")
        except AwsRefused as refused:
            if refused.code == "ResourceNotFound" or (
                refused.code == "ValidationException" and _NO_SUCH_JOB.search(refused.aws_message)
            ):
                return None
            raise

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
            name_contains: a part of their names.
            created_after: seconds since the epoch.
            status: such as `InProgress`; any if None.
            limit: maximum number of jobs.
        """
        request: dict[str, Any] = {
            "SortBy": "CreationTime",
            "SortOrder": "Descending",
            "MaxResults": _PAGE if limit is None else max(1, min(_PAGE, limit)),
        }
        if name_contains:
            request["NameContains"] = name_contains
        if created_after is not None:
            request["CreationTimeAfter"] = datetime.fromtimestamp(created_after, UTC)
        if status is not None:
            request["StatusEquals"] = status
        left = limit
        for page in self._pages("sagemaker", _LIST[kind], request):
            for summary in page[_SUMMARIES[kind]]:
                if left == 0:
                    return
                yield summary
                left = None if left is None else left - 1

    def search_training_jobs(self, tag: str) -> Iterator[dict[str, Any]]:
        """Yield descriptions of training jobs with a tag of that key, newest first; results may be some seconds old."""
        request: dict[str, Any] = {
            "Resource": "TrainingJob",
            "SearchExpression": {"Filters": [{"Name": f"Tags.{tag}", "Operator": "Exists"}]},
            "SortBy": "CreationTime",
            "SortOrder": "Descending",
            "MaxResults": _PAGE,
        }
        for page in self._pages("sagemaker", "search", request):
            for result in page.get("Results", ()):
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
        pages = self._pages("sagemaker", "list_tags", {"ResourceArn": arn}, arn)
        return {tag["Key"]: tag["Value"] for page in pages for tag in page.get("Tags", ())}

    def add_tags(self, arn: str, tags: Mapping[str, str]) -> None:
        """Add tags to a SageMaker resource."""
        request = {"ResourceArn": arn, "Tags": [{"Key": key, "Value": value} for key, value in tags.items()]}
        self._request("sagemaker", "add_tags", request, arn)
