"""Throughput from the counts of the script's processes."""

from typing import Any

import pytest

from gpuproof.agent.verdict import host_throughput
from gpuproof.agent.verdict.throughput import job_throughput


def counts(
    rank: int | None, examples: int, first: float, last: float, first_examples: int = 32
) -> dict[str, Any]:
    return {
        "rank": rank,
        "examples": examples,
        "first_examples": first_examples,
        "first": first,
        "last": last,
    }


def test_the_first_step_starts_the_clock_and_does_not_count():
    found = host_throughput([counts(0, 1032, 100, 110)])
    assert found is not None
    assert (found.examples_per_s, found.examples, found.seconds) == (100, 1032, 10)


def test_ranks_that_work_at_the_same_time_add_up():
    found = host_throughput([counts(1, 532, 100, 110), counts(0, 1032, 100, 110)])
    assert found is not None
    assert found.examples_per_s == 150
    assert [(rank.rank, rank.examples_per_s) for rank in found.ranks] == [(0, 100), (1, 50)]


def test_a_restarted_process_counts_with_the_time_in_between():
    found = host_throughput([counts(None, 1032, 100, 110), counts(None, 1032, 130, 140)])
    assert found is not None
    assert found.examples_per_s == 50


def test_a_rank_that_its_launcher_restarted_is_one_rank():
    found = host_throughput([counts(0, 1032, 100, 110), counts(0, 1032, 130, 140)])
    assert found is not None
    assert [(rank.rank, rank.examples, rank.examples_per_s) for rank in found.ranks] == [(0, 2064, 50)]


@pytest.mark.parametrize(
    "document",
    [
        {},
        counts(0, 32, 100, 100),
        counts(0, 32, 110, 100),
        {**counts(0, 132, 1, 2), "examples": "many"},
        {**counts(0, 132, 1, 2), "last": float("inf")},
    ],
)
def test_a_single_step_and_anything_invalid_has_none(document: dict[str, Any]):
    assert host_throughput([document]) is None


def test_hosts_add_up():
    one = host_throughput([counts(0, 1032, 100, 110)])
    two = host_throughput([counts(1, 1032, 5, 25)])
    assert one is not None
    assert two is not None
    both = job_throughput([one, two])
    assert both is not None
    assert (both.examples_per_s, both.examples, both.seconds, both.ranks) == (150, 2064, 20, ())
    assert job_throughput([]) is None
