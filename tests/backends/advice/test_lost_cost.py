"""What the time that a bottleneck lost has cost."""

from typing import Any

import pytest

from gpuproof.backends.advice.lost_cost import with_lost_cost
from gpuproof.backends.record import RunRecord

VERDICT = {
    "bottlenecks": [
        {"kind": "input", "head": "input wait 41%", "numbers": {"seconds": 410.0, "share": 0.41}},
        {"kind": "end-skew", "numbers": {"seconds": 30.0}},
    ]
}


def record(**more: Any) -> RunRecord:
    state = {
        "id": "a",
        "job_name": "a",
        "kind": "training",
        "backend": "ec2",
        "status": "Completed",
        "created": 1.0,
    }
    return RunRecord.of({**state, "instance_type": "g5.xlarge", **more})


def numbers(verdict: Any, **more: Any) -> list[Any]:
    return [bottleneck["numbers"] for bottleneck in with_lost_cost(verdict, record(**more))["bottlenecks"]]


def test_lost_seconds_cost_their_share_of_the_billed_ones():
    lost, skew = numbers(VERDICT, billed_seconds=1000.0, cost_usd=7.56)
    assert (lost["usd"], lost["run_usd"]) == (pytest.approx(3.0996), 7.56)
    assert "usd" not in skew


def test_lost_seconds_of_one_host_cost_one_instance():
    (found,) = numbers(
        {"bottlenecks": [{**VERDICT["bottlenecks"][0], "host": "algo-2"}]},
        billed_seconds=1000.0,
        cost_usd=7.56,
        instance_count=2,
    )
    assert found["usd"] == pytest.approx(1.5498)


@pytest.mark.parametrize("cost", [{}, {"billed_seconds": 100.0}, {"cost_usd": 0.0, "billed_seconds": 0.0}])
def test_a_run_without_a_known_cost_is_left_as_it_is(cost: dict[str, float]):
    assert with_lost_cost(VERDICT, record(**cost)) == VERDICT
