"""Throughput from the counts of the script's processes."""

from typing import Any

import pytest

from gpuproof.agent.verdict import Throughput, host_throughput
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


def windows(rank: int, *pairs: tuple[float, int]) -> dict[str, Any]:
    (first, first_examples), *rest = pairs
    return {**counts(rank, rest[-1][1], first, rest[-1][0], first_examples), "windows": rest}


def test_windows_of_ranks_are_added_where_all_of_them_count():
    found = host_throughput(
        [
            windows(0, (100, 10), (101, 20), (102, 30), (103, 50), (104, 70)),
            windows(1, (100, 5), (101, 10), (102, 15), (103, 20), (104, 25)),
        ]
    )
    assert found is not None
    assert found.windows == pytest.approx((15, 15, 25, 25))


def test_a_window_between_two_points_is_interpolated():
    found = host_throughput(
        [
            windows(0, (100, 0), (101, 10), (102, 20), (103, 30)),
            windows(1, (99.5, 0), (100.5, 10), (101.5, 20), (103.5, 40)),
        ]
    )
    assert found is not None
    assert found.windows == pytest.approx((20, 20, 20))


def test_the_pause_of_a_rank_that_was_restarted_is_a_slow_window():
    found = host_throughput(
        [
            windows(0, (100, 0), (101, 10), (102, 20)),
            windows(0, (104, 0), (105, 10), (106, 20)),
        ]
    )
    assert found is not None
    assert found.windows[0] > 9
    assert min(found.windows) < 4


@pytest.mark.parametrize(
    "broken", [7, [[1]], [["a", "b"]], [[101, 5000], [102, 6000]], [[102, 40], [101, 50]]]
)
def test_windows_that_cannot_be_right_are_none(broken: Any):
    found = host_throughput([{**counts(0, 1032, 100, 110), "windows": broken}])
    assert found is not None
    assert found.windows == ()


def test_many_windows_become_sixty_four():
    pairs = [(100.0 + second, 10 * second) for second in range(129)]
    found = host_throughput([windows(0, *pairs)])
    assert found is not None
    assert found.windows == pytest.approx((10,) * 64)


def test_windows_of_hosts_add_up_unless_one_has_far_fewer():
    long, short = Throughput(10, 100, 10, windows=(9, 10, 11)), Throughput(5, 50, 10, windows=(5, 5, 5))
    both = job_throughput([long, short])
    assert both is not None
    assert both.windows == (14, 15, 16)
    uneven = job_throughput([long, Throughput(5, 50, 5, windows=(5, 5))])
    assert uneven is not None
    assert uneven.windows == ()
