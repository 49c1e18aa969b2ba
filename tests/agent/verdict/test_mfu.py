"""Model FLOPs utilization, by hand-computed numbers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpuproof.agent.job import PlannedFlops
from gpuproof.agent.verdict import GpuVerdict
from gpuproof.agent.verdict.mfu import host_mfu, job_mfu

A100 = GpuVerdict(0, "NVIDIA A100-SXM4-40GB", worked=True)
T4 = GpuVerdict(0, "Tesla T4", worked=True)
TOOLS = Path(__file__).parents[3] / "tools"


def count(rank: int | None = None, **changes: Any) -> dict[str, Any]:
    """10 steps of 32 examples in 10 s after the first, each of 15.6 TFLOP: 5 % of an A100's 312 TFLOP/s."""
    counted = {"examples": 352, "first_examples": 32, "first": 100.0, "last": 110.0, "calls": 11}
    return {"rank": rank, **counted, "flops": 156e12, "precision": "bfloat16", **changes}


def steps(rank: int | None = None, **changes: Any) -> dict[str, Any]:
    """100 steps in 50 s."""
    return {"rank": rank, "steps": 100, "seconds": 50.0, "precision": "bfloat16", "phases": {}, **changes}


PLANNED = PlannedFlops(flops=78e12, examples=64, gpus=1, precision="amp-bfloat16")


def test_flops_of_the_script_are_a_share_of_the_peak():
    found = host_mfu([A100], [count()], [])
    assert found is not None
    assert found.share == pytest.approx(0.05)
    assert (found.flops_per_step, found.step_s) == (pytest.approx(15.6e12), pytest.approx(1.0))
    assert (found.peak_flops, found.precision, found.source) == (312e12, "bfloat16", "script")


def test_ranks_on_several_gpus_have_the_share_of_each():
    ranks = [count(rank) for rank in range(4)]
    found = host_mfu([replace(A100, index=index) for index in range(4)], ranks, [])
    assert found is not None
    assert found.share == pytest.approx(0.05)
    assert found.flops_per_step == pytest.approx(4 * 15.6e12)
    assert found.step_s == pytest.approx(1.0)


def test_a_gpu_that_did_not_work_has_no_part_in_the_peak():
    found = host_mfu([A100, replace(A100, index=1, worked=False)], [count()], [])
    assert found is not None
    assert found.peak_flops == 312e12


def test_the_time_of_a_restart_counts():
    found = host_mfu([A100], [count(0), count(0, first=120.0, last=130.0)], [])
    assert found is not None
    assert found.share == pytest.approx(2 * 156e12 / 30 / 312e12)
    assert found.flops_per_step == pytest.approx(15.6e12)


def test_planned_flops_of_an_example_by_examples_per_second():
    # 32 examples/s of 78e12 / 64 FLOPs each: 39 TFLOP/s of 312.
    found = host_mfu([A100], [count(flops=None)], [], PLANNED)
    assert found is not None
    assert found.share == pytest.approx(0.125)
    assert (found.source, found.flops_per_step, found.step_s) == ("plan", 78e12, pytest.approx(2.0))


def test_with_accumulated_gradients_the_script_may_count_each_batch():
    # The same examples in twice as many calls of half the batch.
    halves = host_mfu([A100], [count(flops=None, calls=21)], [], PLANNED)
    whole = host_mfu([A100], [count(flops=None)], [], PLANNED)
    assert halves == whole


def test_planned_flops_of_a_step_by_the_time_of_a_step():
    found = host_mfu([A100], [], [steps()], PLANNED)
    assert found is not None
    assert found.share == pytest.approx(78e12 / 0.5 / 312e12)
    assert found.step_s == pytest.approx(0.5)


def test_evaluation_and_checkpoints_are_not_in_the_time_of_a_step():
    measured = steps(phases={"evaluation": 9.0, "checkpoint": 1.0, "input": 5.0})
    found = host_mfu([A100], [], [measured], PLANNED)
    assert found is not None
    assert found.step_s == pytest.approx(0.4)


def test_a_plan_for_another_number_of_gpus_says_nothing_of_a_step():
    two = [A100, replace(A100, index=1)]
    ranks = [steps(0), steps(1)]
    assert host_mfu(two, [], ranks, PLANNED) is None
    found = host_mfu(two, [], ranks, replace(PLANNED, gpus=2))
    assert found is not None
    assert found.share == pytest.approx(78e12 / 0.5 / 312e12)
    assert host_mfu(two, [], ranks, replace(PLANNED, gpus=4), hosts=2) == found


def test_a_frameworks_own_count_comes_last():
    measured = [steps(flops_per_step=39e12, flops_source="transformers", flops=None)]
    found = host_mfu([A100], [], measured)
    assert found is not None
    assert (found.source, found.share) == ("transformers", pytest.approx(0.25))
    planned = host_mfu([A100], [], measured, PLANNED)
    assert planned is not None
    assert planned.source == "plan"


def test_float32_of_a_plan_is_a_lower_bound_because_tf32_is_a_setting():
    found = host_mfu([A100], [count(flops=None, precision=None)], [], replace(PLANNED, precision="float32"))
    assert found is not None
    assert (found.precision, found.peak_flops, found.lower_bound) == ("tf32", 156e12, True)
    assert found.share == pytest.approx(0.25)


def test_float32_that_hooks_have_seen_is_a_lower_bound_too():
    measured = steps(precision="float32", loop="keras", flops_per_step=39e12)
    found = host_mfu([A100], [], [measured])
    assert found is not None
    assert (found.precision, found.share, found.lower_bound) == ("tf32", pytest.approx(0.5), True)


def test_float32_that_the_script_names_is_not_tf32():
    found = host_mfu([A100], [count(flops=39e12, precision="float32")], [])
    assert found is not None
    assert (found.peak_flops, found.lower_bound) == (19.5e12, False)


def test_tf32_on_a_gpu_without_it_is_float32():
    found = host_mfu([T4], [count(flops=8.1e12, precision="tf32")], [])
    assert found is not None
    assert (found.peak_flops, found.share) == (8.1e12, pytest.approx(0.1))


@pytest.mark.parametrize(
    ("gpus", "changes"),
    [
        ([replace(A100, name="NVIDIA GeForce RTX 4090")], {}),
        ([replace(A100, name="NVIDIA A100-SXM4-40GB MIG 1g.5gb")], {}),
        ([replace(A100, name="NVIDIA H100 PCIe")], {}),
        ([A100, replace(A100, name=None)], {}),
        ([], {}),
        ([replace(A100, worked=None)], {}),
        ([T4], {}),
        ([A100], {"precision": None}),
        ([A100], {"precision": "int4"}),
        ([A100], {"precision": ["bfloat16"]}),
        ([A100], {"flops": None}),
        ([A100], {"flops": float("nan")}),
        ([A100], {"flops": "many"}),
        ([A100], {"flops": 1e18}),
        ([A100], {"calls": 1}),
        ([A100], {"last": 100.0}),
    ],
)
def test_what_is_not_known_is_not_guessed(gpus: list[GpuVerdict], changes: dict[str, Any]):
    assert host_mfu(gpus, [count(**changes)], []) is None


def test_ranks_that_differ_in_precision_or_lack_flops_have_none():
    two = [A100, replace(A100, index=1)]
    assert host_mfu(two, [count(0), count(1, precision="float16")], []) is None
    assert host_mfu(two, [count(0), count(1, flops=None)], []) is None


def test_examples_of_the_first_rank_only_are_not_those_of_all():
    two = [A100, replace(A100, index=1)]
    assert host_mfu(two, [count(0)], []) is None
    ranks = [steps(0), steps(1)]
    assert host_mfu(two, [count(0)], ranks) is None
    assert host_mfu(two, [count(None)], ranks) is None
    planned = host_mfu(two, [count(0)], ranks, replace(PLANNED, gpus=2))
    assert planned == host_mfu(two, [], ranks, replace(PLANNED, gpus=2))


def test_one_process_may_count_for_all_its_gpus():
    found = host_mfu([A100, replace(A100, index=1)], [count()], [])
    assert found is not None
    assert found.peak_flops == 624e12


def test_hosts_add_up_to_the_share_of_all_their_gpus():
    fast, slow = host_mfu([A100], [count()], []), host_mfu([A100], [count(flops=78e12)], [])
    found = job_mfu([fast, slow])
    assert found is not None
    assert found.share == pytest.approx(0.0375)
    assert found.peak_flops == 624e12
    assert found.flops_per_step / found.step_s == pytest.approx(23.4e12)
    assert job_mfu([fast, None]) is None
    assert job_mfu([]) is None


def test_the_peaks_are_those_of_the_catalogue(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(TOOLS))
    import build_peak_flops  # type: ignore[import-not-found]

    assert build_peak_flops.FILE.read_text() == build_peak_flops.text(), "run tools/build_peak_flops.py"
