"""Requests to SageMaker about notebook instances and their lifecycle configurations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpuproof.backends.aws.errors import AwsRefused
from gpuproof.backends.aws.session import AwsSession

_PAGE = 100
_MISSING = ("RecordNotFound", "does not exist", "not found")
"""Parts of the messages of ValidationException for what does not exist.

Source: the resources `notebook_instance` and `notebook_instance_lifecycle_configuration` of
https://github.com/hashicorp/terraform-provider-aws
"""


class NotebookCalls(AwsSession):
    """The client's methods for notebook instances."""

    def describe_notebook(self, name: str) -> dict[str, Any] | None:
        """The description of a notebook instance; None if it does not exist."""
        request = {"NotebookInstanceName": name}
        return self._unless_missing("describe_notebook_instance", request, f"notebook instance {name}")

    def list_notebooks(
        self, *, status: str | None = None, lifecycle_config: str | None = None
    ) -> Iterator[dict[str, Any]]:
        """Yield summaries of notebook instances, newest first.

        Args:
            status: such as `InService`; any if None.
            lifecycle_config: the lifecycle configuration that they use.
        """
        request: dict[str, Any] = {
            "SortBy": "CreationTime",
            "SortOrder": "Descending",
            "MaxResults": _PAGE,
        }
        if status is not None:
            request["StatusEquals"] = status
        if lifecycle_config is not None:
            request["NotebookInstanceLifecycleConfigNameContains"] = lifecycle_config
        for page in self._pages("sagemaker", "list_notebook_instances", request):
            for summary in page["NotebookInstances"]:
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
        answer = self._request(
            "sagemaker",
            "create_presigned_notebook_instance_url",
            {"NotebookInstanceName": name},
            f"notebook instance {name}",
        )
        return answer["AuthorizedUrl"]

    def describe_lifecycle_config(self, name: str) -> dict[str, Any] | None:
        """The description of a lifecycle configuration of notebook instances; None if it does not exist."""
        request = {"NotebookInstanceLifecycleConfigName": name}
        what = f"lifecycle configuration {name}"
        return self._unless_missing("describe_notebook_instance_lifecycle_config", request, what)

    def list_lifecycle_configs(self, prefix: str) -> Iterator[str]:
        """Yield the names of lifecycle configurations of notebook instances with a prefix."""
        request = {"NameContains": prefix, "MaxResults": _PAGE}
        for page in self._pages("sagemaker", "list_notebook_instance_lifecycle_configs", request):
            for summary in page["NotebookInstanceLifecycleConfigs"]:
                name = summary["NotebookInstanceLifecycleConfigName"]
                if name.startswith(prefix):
                    yield name

    def delete_lifecycle_config(self, name: str) -> None:
        """Delete a lifecycle configuration; no error if it does not exist."""
        request = {"NotebookInstanceLifecycleConfigName": name}
        what = f"lifecycle configuration {name}"
        self._unless_missing("delete_notebook_instance_lifecycle_config", request, what)

    def _change_notebook(self, operation: str, name: str) -> None:
        self._request("sagemaker", operation, {"NotebookInstanceName": name}, f"notebook instance {name}")

    def _unless_missing(self, operation: str, request: dict[str, Any], what: str) -> dict[str, Any] | None:
        try:
            return self._request("sagemaker", operation, request, what)
        except AwsRefused as refused:
            if is_missing(refused):
                return None
            raise


def is_missing(refused: AwsRefused) -> bool:
    """Whether AWS's answer means that the notebook instance or lifecycle configuration does not exist."""
    return refused.code in ("ResourceNotFound", "ResourceNotFoundException") or (
        refused.code == "ValidationException" and any(part in refused.aws_message for part in _MISSING)
    )
