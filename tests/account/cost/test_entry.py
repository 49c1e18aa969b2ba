"""Costs of runs and their sums, without requests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuproof.account.cleanup.resource import Fleet, HourlyCost, Kind, Resource
from gpuproof.account.cost.entry import (
    CostEntry,
    Grouping,
    bill_by,
    endpoint_entry,
    run_entry,
    spot_saving_usd,
    sum_of,
    sums_of,
)
from gpuproof.backends.record import RunRecord

DAY = 86_400.0
ENTRY = CostEntry("r", "train", "ec2", "us-east-1", "g5.xlarge", 2, 10 * DAY, 3600, 2.0, False, 0.0, False)


def record(**changes: Any) -> RunRecord:
    document = {
        "id": "r-1",
        "job_name": "train",
        "kind": "training",
        "backend": "sagemaker",
        "region": "us-east-1",
        "status": "Completed",
        "created": 10 * DAY,
        "instance_type": "ml.g5.xlarge",
        "instance_count": 2,
        "billed_seconds": 1800.0,
        "cost_usd": 1.4,
    }
    return RunRecord.of(document | changes)


def test_a_run_counts_with_its_billed_seconds() -> None:
    entry = run_entry(record())
    assert entry is not None
    assert (entry.usd, entry.seconds, entry.saved_usd, entry.day) == (1.4, 1800.0, 0.0, "1970-01-11")


def test_a_run_that_never_started_costs_nothing() -> None:
    assert run_entry(record(billed_seconds=None, cost_usd=None)) is None


def test_an_unknown_price_is_not_0() -> None:
    entry = run_entry(record(cost_usd=None))
    assert entry is not None
    assert entry.usd is None
    found = sum_of("total", [entry, ENTRY])
    assert (found.usd, found.unknown, found.count) == (2.0, 1, 2)


def test_a_spot_run_at_30_percent_of_the_price_saved_the_rest() -> None:
    assert spot_saving_usd(3.0, 0.7) == pytest.approx(7.0)
    assert spot_saving_usd(None, 0.7) is None
    assert spot_saving_usd(0.0, 1.0) is None
    assert spot_saving_usd(3.0, None) == 0.0


def test_a_running_job_counts_so_far() -> None:
    entry = run_entry(record(status="InProgress"))
    assert entry is not None
    assert entry.running


def test_an_endpoint_counts_since_its_creation_but_not_before_the_period() -> None:
    fleets = (Fleet("ml.g5.xlarge", 2),)
    one = Resource(Kind.ENDPOINT, "us-east-1", "chat", fleets=fleets, cost=HourlyCost(2.0), created=0.0)
    assert endpoint_entry(one, 0.0, 3600.0).usd == pytest.approx(2.0)
    assert endpoint_entry(one, 1800.0, 3600.0).usd == pytest.approx(1.0)
    assert endpoint_entry(replace(one, cost=None), 0.0, 3600.0).usd is None


@given(
    st.lists(
        st.builds(
            replace,
            st.just(ENTRY),
            job=st.sampled_from("ab"),
            created=st.floats(0, 5 * DAY),
            usd=st.none() | st.floats(0, 100),
            instance_type=st.sampled_from(["g5.xlarge", "p4d.24xlarge"]),
        )
    ),
    st.sampled_from(["day", "job", "type", "backend"]),
)
def test_groups_add_up_to_the_total(entries: list[CostEntry], by: Grouping) -> None:
    groups, total = sums_of(entries, by), sum_of("total", entries)
    assert sum(group.usd for group in groups) == pytest.approx(total.usd)
    assert sum(group.count for group in groups) == total.count == len(entries)
    assert sum(group.unknown for group in groups) == total.unknown
    assert len({group.key for group in groups}) == len(groups)


def test_the_bill_has_days_and_jobs_only_and_no_untagged_costs() -> None:
    costs = [
        ("2026-11-01", "a", 1.0),
        ("2026-11-01", "b", 2.0),
        ("2026-11-02", "a", 4.0),
        ("2026-11-02", "", 99.0),
    ]
    assert bill_by("job", costs) == {"a": 5.0, "b": 2.0}
    assert bill_by("day", costs) == {"2026-11-01": 3.0, "2026-11-02": 4.0}
    assert bill_by("type", costs) is None


def test_the_document_of_an_entry_has_its_time_as_text() -> None:
    assert ENTRY.document()["created"] == "1970-01-11T00:00:00.000Z"
