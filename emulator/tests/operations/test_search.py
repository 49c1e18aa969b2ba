"""`Search` returns training jobs in the requested order."""

from __future__ import annotations

from pathlib import Path

from gpuproof_emulator.operations import OPERATIONS
from gpuproof_emulator.store import Resource
from support.emulator_context import make_call, make_context


def test_jobs_that_are_searched_come_in_the_order_of_numbers(tmp_path: Path) -> None:
    context = make_context(tmp_path)
    for seconds in (9, 100, 20):
        document = {"TrainingJobName": f"job-{seconds}", "BillableTimeInSeconds": seconds}
        context.store.add(Resource("training-job", "us-east-1", f"job-{seconds}", document))
    request = {"Resource": "TrainingJob", "SortBy": "BillableTimeInSeconds", "SortOrder": "Ascending"}
    call = make_call(context, request)
    found = [
        result["TrainingJob"]["BillableTimeInSeconds"] for result in OPERATIONS["Search"](call)["Results"]
    ]
    assert found == [9, 20, 100]
