"""The state of a warm pool, as Describe reports it."""

from __future__ import annotations

import pytest

from gpuproof_emulator.execution.jobs.warm_pools import describe_with_warm_pool
from gpuproof_emulator.store import Resource


@pytest.mark.parametrize(
    ("passed", "status", "billed"), [(0.0, "Available", 0), (59.0, "Available", 59), (90.0, "Terminated", 60)]
)
def test_a_warm_pool_ends_when_its_time_is_over(passed: float, status: str, billed: int) -> None:
    job = Resource(
        "training-job",
        "us-east-1",
        "a",
        {
            "ResourceConfig": {"KeepAlivePeriodInSeconds": 60},
            "TrainingJobStatus": "Completed",
            "TrainingEndTime": 1000.0,
        },
    )
    assert describe_with_warm_pool(job, 1000.0 + passed)["WarmPoolStatus"] == {
        "Status": status,
        "ResourceRetainedBillableTimeInSeconds": billed,
    }
