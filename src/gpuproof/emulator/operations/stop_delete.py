"""Stopping and deleting a job: the same for every kind of job."""

from __future__ import annotations

from typing import Any

from gpuproof.emulator.operations.call import Call
from gpuproof.emulator.protocol import AwsError
from gpuproof.emulator.store import Resource


def stop_job(call: Call, job: Resource, kind: str) -> dict[str, Any]:
    """Ask a job to end; one that is stopping already is left to it.

    Args:
        kind: `Training` or `Processing`.

    Raises:
        AwsError: the job has ended.
    """
    if call.emulator.supervisor.stop(job) or (status := job.document[f"{kind}JobStatus"]) == "Stopping":
        return {}
    raise AwsError(
        "ValidationException",
        f"The request was rejected because the {kind.lower()} job is in status {status}.",
    )


def delete_job(call: Call, job: Resource, kind: str) -> dict[str, Any]:
    """Forget a job that has ended.

    Args:
        kind: `Training` or `Processing`.

    Raises:
        AwsError: it goes on.
    """
    status = job.document[f"{kind}JobStatus"]
    if status in ("InProgress", "Stopping"):
        raise AwsError(
            "ValidationException",
            f"The {kind.lower()} job {job.name} cannot be deleted while it is in status {status}.",
        )
    call.emulator.store.remove(job)
    return {}
