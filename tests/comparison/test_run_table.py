"""Three or more runs in the terminal: a row for each run."""

from __future__ import annotations

from gpuproof.comparison.comparison import Comparison, Side, compare_sides
from gpuproof.comparison.measurements import RunMeasurements
from gpuproof.comparison.result import ComparisonResult
from gpuproof.comparison.run_table import run_tables, setting_table
from gpuproof.terminal.table import Table, table_width

GIB = 1 << 30


def run(name: str, instance: str, rate: float, usd: float, status: str = "Completed") -> RunMeasurements:
    values = {"examples_per_s": rate, "step_s": 32 / rate, "input_s": 8 / rate, "forward_s": 24 / rate}
    values |= {"script_s": 3600.0, "usd": usd, "gpu_memory_bytes": 9.4 * GIB, "utilization": 0.87}
    settings = {"instance_type": instance, "gpu": "A10G", "argument --lr": "0.1" if usd > 1 else "0.2"}
    return RunMeasurements(name, "train", status, "used", values, settings=settings)


def comparison() -> Comparison:
    runs = [
        run("train-1", "g5.xlarge", 1000, 1.01),
        run("train-2", "g6.xlarge", 1500, 0.80),
        run("train-3", "g5.xlarge", 900, 1.01, "Stopped"),
    ]
    return compare_sides([Side(found.run, (found,)) for found in runs])


def columns(table: Table) -> dict[str, tuple[str, ...]]:
    return dict(zip(table.headers, zip(*table.rows, strict=True), strict=True))


def test_each_run_has_a_row_with_its_outcome_its_measures_and_the_change_from_the_first():
    first, _, said, phases = list(run_tables(comparison(), width=0))
    assert isinstance(first, Table)
    assert isinstance(phases, Table)
    found = columns(first)
    assert found["RUN"] == ("train-1", "train-2", "train-3")
    assert found["OUTCOME"] == ("Completed, used", "Completed, used", "Stopped, used")
    assert found["INSTANCE"] == ("g5.xlarge", "g6.xlarge", "g5.xlarge")
    assert found["EXAMPLES/S"] == ("1,000", "1,500 (+50.0%)", "900 (-10.0%)")
    assert found["COST"][1].startswith("$0.80 (-20.8%")
    assert found["GPU MEMORY"] == ("9.4 GiB", "9.4 GiB (0%)", "9.4 GiB (0%)")
    assert said == "Where the time of a step went:"
    assert columns(phases)["INPUT WAIT"] == ("8 ms", "5.33 ms", "8.89 ms")


def test_a_narrow_terminal_shows_the_main_columns_and_names_the_others():
    first, *_, hidden = list(run_tables(comparison(), width=80))
    assert isinstance(first, Table)
    assert table_width([first.headers, *first.rows]) <= 80
    assert {"RUN", "OUTCOME", "EXAMPLES/S"} <= set(first.headers)
    assert first.hidden
    assert hidden == f"Hidden in this narrow terminal: {', '.join(first.hidden)}; --format json has all."


def test_settings_that_differ_have_a_column_for_each_run():
    table = setting_table(comparison())
    assert table.headers == ("DIFFERENT", "#1", "#2", "#3")
    assert ("argument --lr", "0.1", "0.2", "0.1") in table.rows


def test_runs_that_measured_nothing_still_have_their_outcome():
    runs = [RunMeasurements(name, "train", "Failed", "unknown") for name in ("a", "b", "c")]
    shown = str(ComparisonResult(compare_sides([Side(found.run, (found,)) for found in runs])))
    assert "Failed, unknown" in shown
    assert "Nothing can be compared" in shown


def test_a_side_of_several_runs_names_them():
    runs = [run(f"train-{number}", "g5.xlarge", 1000 + number, 1.0) for number in range(4)]
    sides = [Side("baseline", (runs[0],), is_baseline=True), Side("train-1", (runs[1],))]
    shown = str(ComparisonResult(compare_sides([*sides, Side("train-2 and 1 more", tuple(runs[2:]))])))
    assert "#1  baseline: train-0 (Completed, used)" in shown
    assert "#3  train-2 (Completed, used), train-3 (Completed, used)" in shown
