"""Points of the series: means of samples, and what was counted between two points."""

from __future__ import annotations

from typing import Any

from gpuproof.agent.sinks.metrics import Point, Run, Value, key, summary_of
from gpuproof.agent.sinks.series import Series
from gpuproof.gpu.intensity import GPM, Counters
from support.sink_runs import VERDICT, sample


def values(point: Point) -> dict[tuple[str, Any], float]:
    return {(value.metric, value.label): value.value for value in point.values}


def test_a_point_is_the_mean_over_time_of_its_samples() -> None:
    series = Series(list, list)
    series.add(sample(0.0, dt=0.0, utilization=0))
    series.add(sample(1.0, dt=1.0, utilization=100, power_w=100.0))
    series.add(sample(4.0, dt=3.0, utilization=20, power_w=200.0))
    point = values(series.take(1000.0, 4.0))
    assert point["gpu_utilization", 0] == 0.4
    assert point["gpu_power", 0] == 175.0
    assert point["gpu_temperature", 0] == 61


def test_each_point_has_only_the_samples_since_the_last_one() -> None:
    series = Series(list, list)
    series.add(sample(1.0, utilization=100))
    series.take(1.0, 1.0)
    series.add(sample(2.0, utilization=50))
    assert values(series.take(2.0, 2.0))["gpu_utilization", 0] == 0.5
    assert series.take(3.0, 3.0).values == ()


def test_the_working_share_is_what_the_performance_counters_say() -> None:
    series = Series(list, list)
    series.add(sample(1.0, counters=Counters(GPM, 1.0, sm_active=0.25, tensor_active=0.1)))
    point = values(series.take(1.0, 1.0))
    assert (point["gpu_working", 0], point["gpu_tensor_active", 0]) == (0.25, 0.1)


def test_unknown_values_are_no_series() -> None:
    series = Series(list, list)
    series.add(sample(1.0, utilization=None, power_w=None, memory_used=None, temperature_c=None))
    assert series.take(1.0, 1.0).values == ()


def test_throughput_is_what_was_counted_between_two_points() -> None:
    counts = [{"rank": 0, "examples": 100, "first_examples": 10, "first": 5.0, "last": 10.0}]
    series = Series(lambda: counts, list)
    assert series.take(0.0, 0.0).values == ()
    counts[0] |= {"examples": 400, "last": 20.0}
    assert values(series.take(1.0, 1.0)) == {("throughput", None): 30.0}
    assert series.take(2.0, 2.0).values == ()


def test_the_split_of_the_steps_is_that_since_the_last_point() -> None:
    steps = [{"steps": 10, "seconds": 10.0, "phases": {"input": 8.0, "forward": 2.0}}]
    series = Series(list, lambda: steps)
    first = values(series.take(0.0, 0.0))
    assert first["step_seconds", None] == 1.0
    assert first["step_share", "input"] == 0.8
    steps[0] = {"steps": 30, "seconds": 20.0, "phases": {"input": 10.0, "forward": 10.0}}
    second = values(series.take(1.0, 1.0))
    assert second["step_seconds", None] == 0.5
    assert second["step_share", "input"] == 0.2
    assert second["step_share", "forward"] == 0.8


def test_files_that_the_script_has_overwritten_lose_only_their_own_series() -> None:
    series = Series(lambda: [{"first": 1.0}], lambda: [{"steps": "many"}, {"phases": 3}])
    series.add(sample(1.0))
    assert set(values(series.take(1.0, 1.0))) == {
        ("gpu_utilization", 0),
        ("gpu_memory_used", 0),
        ("gpu_power", 0),
        ("gpu_temperature", 0),
    }


def test_a_point_survives_its_json() -> None:
    point = Point(1.5, 2.5, (Value("gpu_power", 0, 3.0), Value("step_share", "input", 0.5)))
    assert Point.from_json(point.to_json()) == point


def test_keys_name_gpu_phase_and_host_of_several() -> None:
    run = Run("r", "j", "algo-2", 1, 0.0, "", "", "")
    several = Run("r", "j", "algo-2", 2, 0.0, "", "", "")
    assert key(Value("gpu_memory_used", 1, 0.0), run) == "gpuproof/gpu1/memory_used"
    assert key(Value("step_share", "input", 0.0), run) == "gpuproof/step/share/input"
    assert key(Value("throughput", None, 0.0), several) == "gpuproof/algo-2/throughput"


def test_the_summary_has_outcome_numbers_and_shares() -> None:
    verdict = {
        **VERDICT,
        "gpu_requirement_met": True,
        "throughput": {"examples_per_s": 512.0},
        "mfu": {"share": 0.41},
        "steps": {"total": {"steps": 100, "seconds": 50.0, "phases": {"input": 20.0}}},
    }
    summary = summary_of(verdict, "Completed", 0)
    assert summary["outcome"] == "used"
    assert summary["gpu0/mean_utilization"] == 87.5
    assert (summary["mfu"], summary["examples_per_s"], summary["steps"]) == (0.41, 512.0, 100)
    assert summary["step/share/input"] == 0.4
    assert summary["gpu_requirement_met"] == 1
