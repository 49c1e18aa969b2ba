"""Limits: exceeded beyond the noise, kept, or undecided; and what the comparison says."""

from __future__ import annotations

from typing import Any

import pytest

from gpuproof.comparison.comparison import Side, compare_sides
from gpuproof.comparison.limits import COST, MEMORY, SLOWER, check_limits, parse_share
from gpuproof.comparison.measurements import RunMeasurements
from gpuproof.comparison.result import ComparisonResult

STEADY = tuple(100 + number % 3 for number in range(64))
ROUGH = tuple(100 + 60 * (-1) ** (number // 8) for number in range(64))


def run(name: str = "run", status: str | None = "Completed", **values: float) -> RunMeasurements:
    return RunMeasurements(name, "train", status, "used", values)


def sides(*runs: RunMeasurements | tuple[RunMeasurements, ...]) -> list[Side]:
    found = [run if isinstance(run, tuple) else (run,) for run in runs]
    return [Side(same[0].run, same) for same in found]


def result(*runs: RunMeasurements | tuple[RunMeasurements, ...], **limits: float) -> ComparisonResult:
    comparison = compare_sides(sides(*runs))
    return ComparisonResult(comparison, check_limits(comparison, list(limits.items())))


def with_windows(rate: float, windows: tuple[float, ...]) -> RunMeasurements:
    scaled = tuple(rate * window / 100 for window in windows)
    return RunMeasurements(
        "run", "train", "Completed", "used", {"examples_per_s": rate}, {"examples_per_s": scaled}
    )


def test_a_run_that_is_slower_than_the_limit_beyond_noise_exceeds_it():
    found = result(with_windows(100, STEADY), with_windows(90, STEADY), max_slower=0.05)
    (limit,) = found.limits
    assert (limit.outcome, limit.measure, found.exit_code) == ("exceeded", "examples_per_s", 1)
    assert limit.change is not None
    assert limit.change.share == pytest.approx(100 / 90 - 1)


def test_a_difference_within_the_noise_keeps_the_limit_and_says_so():
    found = result(with_windows(100, ROUGH), with_windows(90, ROUGH), max_slower=0.05)
    (limit,) = found.limits
    assert (limit.outcome, found.exit_code) == ("kept", 0)
    assert "may be noise" in limit.reason
    assert "No difference that exceeds the noise within the runs." in str(found)


def test_a_faster_run_keeps_the_limit():
    assert result(with_windows(100, STEADY), with_windows(120, STEADY), max_slower=0.0).exit_code == 0


def test_several_runs_show_the_noise_between_them():
    reference = tuple(run(step_s=value) for value in (1.0, 1.02, 0.98))
    found = result(reference, tuple(run(step_s=value) for value in (1.2, 1.21, 1.19)), max_slower=0.1)
    assert (found.limits[0].outcome, found.limits[0].measure) == ("exceeded", "step_s")
    noisy = tuple(run(step_s=value) for value in (1.0, 1.4, 0.9))
    assert result(noisy, run(step_s=1.2), max_slower=0.1).exit_code == 0


def test_without_known_noise_the_difference_itself_decides():
    found = result(
        run(usd=1.0, gpu_memory_bytes=100), run(usd=1.11, gpu_memory_bytes=100), max_cost=0.1, max_memory=0.0
    )
    assert [limit.outcome for limit in found.limits] == ["exceeded", "kept"]
    assert "the noise is unknown" in found.limits[0].reason


def test_the_time_of_the_script_counts_where_nothing_else_is_known():
    found = result(run(script_s=100), run(script_s=120, step_s=1.0), max_slower=0.1)
    assert (found.limits[0].outcome, found.limits[0].measure) == ("exceeded", "script_s")


def test_steps_of_different_batch_sizes_are_not_compared():
    small = RunMeasurements("a", values={"step_s": 1.0}, settings={"argument --batch-size": "32"})
    large = RunMeasurements("b", values={"step_s": 1.9}, settings={"argument --batch-size": "64"})
    found = result(small, large, small, max_slower=0.1)
    assert [limit.outcome for limit in found.limits] == ["undecided", "kept"]
    assert "argument --batch-size differs" in found.limits[0].reason


def test_what_is_not_known_of_both_is_undecided():
    found = result(run(step_s=1.0), run(step_s=1.0), max_cost=0.1)
    assert (found.limits[0].outcome, found.exit_code) == ("undecided", 3)


@pytest.mark.parametrize("order", [1, -1])
def test_a_run_that_ended_early_has_no_cost_to_compare(order: int):
    runs = [run(usd=1.0, step_s=1.0), run("broken", "Failed", usd=0.1, step_s=1.0)][::order]
    found = result(*runs, max_cost=0.1, max_slower=0.1)
    assert [limit.outcome for limit in found.limits] == ["undecided", "kept"]
    assert "broken did not run to its end" in found.limits[0].reason
    assert found.exit_code == 3


def test_an_exceeded_limit_weighs_more_than_an_undecided_one():
    assert result(run(step_s=1.0), run(step_s=2.0), max_slower=0.1, max_cost=0.1).exit_code == 1


def test_each_side_is_checked():
    found = result(run("a", step_s=1.0), run("b", step_s=1.01), run("c", step_s=1.5), max_slower=0.1)
    assert [(limit.side, limit.outcome) for limit in found.limits] == [("b", "kept"), ("c", "exceeded")]
    assert "--max-slower 10% of c: exceeded" in str(found)


def test_runs_without_a_common_measure_are_undecided():
    found = result(run(usd=1.0), run(step_s=1.0))
    assert found.exit_code == 3
    assert "Nothing can be compared" in str(found)


def test_settings_that_differ_are_shown_and_others_are_not():
    one = RunMeasurements(
        "a", values={"step_s": 1.0}, settings={"torch": "2.12", "gpu": "A10G", "argument --lr": "0.1"}
    )
    two = RunMeasurements("b", values={"step_s": 1.0}, settings={"torch": "2.13", "gpu": "A10G"})
    found = compare_sides(sides(one, two))
    assert {row.name: row.values for row in found.settings} == {
        "torch": ("2.12", "2.13"),
        "argument --lr": ("0.1", None),
    }


def test_runs_of_a_side_that_differ_are_shown():
    one = RunMeasurements("a", values={"step_s": 1.0}, settings={"region": "us-east-1"})
    two = RunMeasurements("b", values={"step_s": 1.0}, settings={"region": "us-west-2"})
    assert compare_sides(sides((one, two), one)).settings[0].values == ("us-east-1 or us-west-2", "us-east-1")


def test_a_measure_that_one_run_of_a_side_lacks_is_not_compared():
    found = result((run(step_s=1.0), run(usd=1.0)), run(step_s=1.0))
    assert found.comparison.change("step_s", 1) is None


def test_json_has_changes_with_their_intervals():
    found: dict[str, Any] = result(
        with_windows(100, STEADY), with_windows(90, STEADY), max_slower=0.05
    ).to_json()
    assert (found["version"], found["exit_code"], found["confidence"]) == (1, 1, 0.95)
    (measure,) = found["measures"]
    assert (measure["name"], measure["better"], measure["values"]) == ("examples_per_s", "higher", [100, 90])
    (change,) = measure["changes"]
    assert (change["noise_from"], change["differs"]) == ("windows", True)
    assert change["low"] < change["share"] < change["high"]
    assert found["limits"][0]["outcome"] == "exceeded"


@pytest.mark.parametrize(("text", "share"), [("5%", 0.05), ("+10 %", 0.1), ("0%", 0.0), ("2.5%", 0.025)])
def test_limits_are_percentages(text: str, share: float):
    assert parse_share(text) == pytest.approx(share)


@pytest.mark.parametrize("text", ["0.05", "5", "-5%", "%", "five%", "$3"])
def test_other_limits_are_ambiguous(text: str):
    with pytest.raises(ValueError, match="not a percentage"):
        parse_share(text)


def test_the_names_of_limits_are_those_of_the_options():
    assert (SLOWER, COST, MEMORY) == ("max_slower", "max_cost", "max_memory")
