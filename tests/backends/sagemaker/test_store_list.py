"""Runs are listed from tags, lists and a search, however many other jobs the account has."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gpuproof.backends.aws import Aws
from gpuproof.backends.sagemaker.store import SageMakerRunStore

BEGINNING = datetime(2026, 5, 1, tzinfo=UTC)


class Account(Aws):
    """Training jobs in an account; nothing goes over a network.

    Args:
        jobs: name and status, the oldest first.
    """

    def __init__(self, *jobs: tuple[str, str], removed: frozenset[str] = frozenset()) -> None:
        super().__init__(region="us-east-1")
        self._jobs = [
            {
                "TrainingJobName": name,
                "TrainingJobArn": f"arn:aws:sagemaker:us-east-1:123456789012:training-job/{name}",
                "TrainingJobStatus": status,
                "CreationTime": BEGINNING + timedelta(minutes=number),
            }
            for number, (name, status) in enumerate(jobs)
        ]
        self._removed = removed

    def tagged(self, key: str, *_: Any, **__: Any) -> Iterator[tuple[str, dict[str, str]]]:
        for job in self._runs():
            removed = {"gpuproof:removed": "true"} if job["TrainingJobName"] in self._removed else {}
            yield job["TrainingJobArn"], {key: job["TrainingJobName"], **removed}

    def _request(
        self, service: str, operation: str, request: dict[str, Any], what: str | None = None
    ) -> dict[str, Any]:
        start, status = int(request.get("NextToken", 0)), request.get("StatusEquals")
        if operation == "search":
            found = [{"TrainingJob": {**job, "BillableTimeInSeconds": 60}} for job in reversed(self._runs())]
            return self._page("Results", found, start)
        if operation == "list_training_jobs":
            jobs = [job for job in reversed(self._jobs) if status in (None, job["TrainingJobStatus"])]
            return self._page("TrainingJobSummaries", jobs, start)
        if operation == "list_processing_jobs":
            return {"ProcessingJobSummaries": []}
        if operation == "list_tags":
            return {"Tags": []}
        assert operation == "describe_training_job"
        return next(job for job in self._jobs if job["TrainingJobName"] == request["TrainingJobName"])

    def _runs(self) -> list[dict[str, Any]]:
        return [job for job in self._jobs if job["TrainingJobName"].startswith("train-")]

    def _page(self, member: str, items: list[dict[str, Any]], start: int) -> dict[str, Any]:
        more = {"NextToken": str(start + 100)} if start + 100 < len(items) else {}
        return {member: items[start : start + 100], **more}


def run_id(number: int) -> str:
    return f"train-20260501-12{number:04}-00ff"


def test_removed_runs_take_no_bill_from_those_that_are_listed() -> None:
    ids = [run_id(number) for number in range(6)]
    account = Account(*((name, "Completed") for name in ids), removed=frozenset(ids[2:5]))
    bills = {
        record.id: record.document.get("billed_seconds") for record in SageMakerRunStore(account).records()
    }
    assert bills == dict.fromkeys((ids[0], ids[1], ids[5]), 60.0)


@pytest.mark.parametrize("others", [5, 250])
def test_an_old_run_that_goes_on_is_found_among_many_others(others: int) -> None:
    account = Account(
        (run_id(0), "InProgress"),
        *((f"other-{number}", "InProgress") for number in range(others)),
        (run_id(1), "Completed"),
    )
    records, _ = SageMakerRunStore(account).newest(1)
    assert [record.id for record in records] == [run_id(1), run_id(0)]
