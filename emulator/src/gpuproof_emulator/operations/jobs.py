"""Describe, list, stop and delete, which are the same for training and processing jobs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpuproof_emulator.job_kinds import JobKind
from gpuproof_emulator.operations.call import OperationCall
from gpuproof_emulator.operations.list import Listing
from gpuproof_emulator.protocol import AwsError
from gpuproof_emulator.store import TRAINING, Resource

MAX_RUNTIME_S = 86_400
"""Default of `MaxRuntimeInSeconds`."""


class JobOperations:
    """Operations on existing jobs of one kind.

    Args:
        kind: the kind of job.
        missing: AWS's message if a job does not exist; `{name}` stands for its name.
        visible: the document that Describe and List return for a job.
    """

    def __init__(
        self,
        kind: JobKind,
        missing: str,
        visible: Callable[[Resource], dict[str, Any]] = lambda job: job.document,
    ) -> None:
        self._kind = kind
        self._missing = missing
        self._visible = visible
        self._listing = Listing(
            kind.resource,
            f"{kind.word}JobSummaries",
            kind.status_member,
            visible=visible,
            status_after_paging=kind.resource == TRAINING,
        )

    def table(self) -> dict[str, Callable[[OperationCall], dict[str, Any]]]:
        """The operations by name."""
        word = self._kind.word
        return {
            f"Describe{word}Job": self.describe,
            f"List{word}Jobs": self._listing.list_page,
            f"Stop{word}Job": self.stop,
            f"Delete{word}Job": self.delete,
        }

    def describe(self, call: OperationCall) -> dict[str, Any]:
        """`DescribeTrainingJob` or `DescribeProcessingJob`."""
        return self._visible(call.wait_until_settled(self._find(call), self._kind.status_member))

    def stop(self, call: OperationCall) -> dict[str, Any]:
        """`StopTrainingJob` or `StopProcessingJob`; does nothing if the job is already stopping.

        Raises:
            AwsError: the job has ended.
        """
        job = self._find(call)
        if call.jobs.stop(job) or (status := job.document[self._kind.status_member]) == "Stopping":
            return {}
        raise AwsError(
            "ValidationException",
            f"The request was rejected because the {self._kind.word.lower()} job is in status {status}.",
        )

    def delete(self, call: OperationCall) -> dict[str, Any]:
        """`DeleteTrainingJob` or `DeleteProcessingJob`.

        Raises:
            AwsError: the job has not ended.
        """
        job = self._find(call)
        if self._kind.is_active(job):
            status = job.document[self._kind.status_member]
            raise AwsError(
                "ValidationException",
                f"The {self._kind.word.lower()} job {job.name} cannot be deleted while it is in status {status}.",
            )
        call.context.store.remove(job)
        return {}

    def _find(self, call: OperationCall) -> Resource:
        name = call.request[self._kind.name_member]
        return call.find(self._kind.resource, name, self._missing.format(name=name))
