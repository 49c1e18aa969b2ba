"""Starts, stops, opens and deletes notebook instances, and waits for it."""

from __future__ import annotations

from typing import Any

from gpuproof.backends.aws import Aws, AwsRefused
from gpuproof.backends.progress import SubmitProgress
from gpuproof.backends.remote.s3_layout import notebook_results
from gpuproof.backends.sagemaker.notebooks.errors import NotebookFailed, NotebookGone, NotebookNotFound
from gpuproof.backends.sagemaker.notebooks.failure import failure
from gpuproof.backends.sagemaker.notebooks.plan import BUCKET_TAG, NAME_TAG
from gpuproof.backends.sagemaker.notebooks.shared_files import delete_results, delete_unused
from gpuproof.backends.sagemaker.notebooks.wait import NotebookWaiter
from gpuproof.errors import GPUproofError

_STATUS = "NotebookInstanceStatus"
_CONFIG = "NotebookInstanceLifecycleConfigName"
_RACES = 3
"""Attempts at a change while the state changes in between."""


class Notebook:
    """One notebook instance of the account.

    Args:
        progress: told about each step.
    """

    def __init__(self, aws: Aws, name: str, waiter: NotebookWaiter, progress: SubmitProgress) -> None:
        self._aws = aws
        self.name = name
        self._waiter = waiter
        self._progress = progress

    def describe(self) -> dict[str, Any]:
        """Its description.

        Raises:
            NotebookNotFound: it does not exist.
        """
        found = self._aws.describe_notebook(self.name)
        if found is None:
            raise NotebookNotFound(
                f"There is no notebook instance {self.name} in {self._aws.region}.",
                remedy=f"gpuproof notebook list{self._aws.region_flag}",
            )
        return found

    def tags(self) -> dict[str, str]:
        """Its tags."""
        return self._aws.tags(self.describe()["NotebookInstanceArn"])

    def is_own(self) -> bool:
        """Whether GPUproof created it."""
        return self.tags().get(NAME_TAG) == self.name

    def start(self, *, wait: bool = True) -> str:
        """Start it, if it is stopped; returns its state.

        Raises:
            NotebookFailed: it could not be started.
            NotebookTimeout: it is still Pending: it stays so.
        """
        status = self.describe()[_STATUS]
        for _ in range(_RACES):
            if status in ("Stopping", "Updating"):
                status = self._status_after(("Stopping", "Updating"))
            if status == "Deleting":
                raise NotebookGone(f"The notebook instance {self.name} is being deleted.")
            if status not in ("Stopped", "Failed"):
                break
            self._progress.step(f"start {self.name}")
            if self._changed(self._aws.start_notebook):
                status = "Pending"
                break
            status = self.describe()[_STATUS]
        return self.wait_in_service() if wait and status == "Pending" else status

    def wait_in_service(self) -> str:
        """Wait until it is in service; returns its state.

        Raises:
            NotebookFailed: it failed.
        """
        description = self._waiter.while_in(self.name, ("Pending", "Updating"))
        if description is None:
            raise NotebookGone(f"The notebook instance {self.name} was deleted in the meantime.")
        status = description[_STATUS]
        if status == "Failed":
            raise failure(self._aws, self.name, description.get("FailureReason") or "")
        if status != "InService":
            raise NotebookGone(
                f"The notebook instance {self.name} is {status}: another user or command stopped it."
            )
        return status

    def stop(self, *, wait: bool = True) -> str:
        """Stop it; returns its state. One that is Pending is waited for, because SageMaker does not stop it."""
        status = self.describe()[_STATUS]
        for _ in range(_RACES):
            if status in ("Pending", "Updating"):
                status = self._status_after(("Pending", "Updating"))
            if status != "InService":
                break
            self._progress.step(f"stop {self.name}")
            if self._changed(self._aws.stop_notebook):
                status = "Stopping"
                break
            status = self.describe()[_STATUS]
        return self._status_after(("Stopping",)) if wait and status == "Stopping" else status

    def open(self) -> str:
        """An address that opens it, after waiting until it is in service. Anyone who has the address has the role's permissions.

        Raises:
            NotebookFailed: it is not running.
        """
        status = self.describe()[_STATUS]
        if status == "Pending":
            status = self.wait_in_service()
        if status != "InService":
            raise NotebookFailed(
                f"The notebook instance {self.name} is {status}.",
                remedy=f"gpuproof notebook start {self.name}{self._aws.region_flag}",
            )
        return self._aws.notebook_url(self.name)

    def gpu_check(self) -> str | None:
        """What the check at its last start found, in lines; None if it has not reported."""
        try:
            bucket = self.tags().get(BUCKET_TAG)
            found = bucket and self._aws.get_bytes(bucket, f"{notebook_results(self.name)}/gpu-check.txt")
        except GPUproofError:
            return None
        return found.decode(errors="replace").strip() if found else None

    def delete(self) -> list[str]:
        """Stop it, delete it, and delete its lifecycle configuration and agent if nothing else uses them.

        Returns:
            Messages about what could not be deleted.

        Raises:
            GPUproofError: it could not be deleted.
        """
        description = self.describe()
        tags = self._aws.tags(description["NotebookInstanceArn"])
        bucket = tags.get(BUCKET_TAG)
        self._progress.step(f"delete {self.name}")
        delete_instance(self._aws, self.name, self._waiter)
        self._progress.step("delete what no other notebook instance uses")
        problems = delete_unused(self._aws, description.get(_CONFIG), bucket)
        if bucket is not None:
            problems += delete_results(self._aws, bucket, self.name)
        return problems

    def _status_after(self, states: tuple[str, ...]) -> str:
        description = self._waiter.while_in(self.name, states)
        return description[_STATUS] if description is not None else DELETED

    def _changed(self, change: Any) -> bool:
        """Whether a change was accepted; false if the state has changed in the meantime."""
        try:
            change(self.name)
        except AwsRefused as refused:
            if is_transition_error(refused):
                return False
            raise
        return True


DELETED = "Deleted"
"""The state of a notebook instance that no longer exists."""


def delete_instance(aws: Aws, name: str, waiter: NotebookWaiter) -> None:
    """Delete a notebook instance in any state, and wait until it is gone; no error if it does not exist.

    Raises:
        NotebookTimeout: it did not leave a state.
        GPUproofError: SageMaker refused.
    """
    while True:
        description = waiter.while_in(name, ("Pending", "Updating", "Stopping", "Deleting"))
        if description is None:
            return
        try:
            if description[_STATUS] == "InService":
                aws.stop_notebook(name)
            else:
                aws.delete_notebook(name)
        except AwsRefused as refused:
            if refused.is_missing:
                return
            if not is_transition_error(refused):
                raise  # otherwise, the state has changed since it was described


def is_transition_error(refused: AwsRefused) -> bool:
    """Whether SageMaker refused because of the state of the notebook instance."""
    return refused.code == "ValidationException" and "Unable to transition" in refused.aws_message
