"""Rankings by predicted seconds against those by measured ones."""

from __future__ import annotations

from dataclasses import replace

import pytest
from bench.plan.fit import Row
from bench.plan.measured_steps import MeasuredStep
from bench.plan.ranking import gpu_prices, ranking_accuracy

from gpuproof.catalogue import Catalogue
from support.plan_examples import gpu, training

CATALOGUE = Catalogue.load()
SPEEDS = {"T4": 1.0, "V100-16GB": 3.0, "A100-40GB": 8.0}


def row(name: str, model: int, *, factor: float = 1.0) -> Row:
    seconds = (1 + model) / SPEEDS[name]
    step = MeasuredStep(
        "table", f"model {model}", gpu(name), training(1), factor * seconds, work=("table", model)
    )
    return Row(factor * seconds, {"gemm": seconds / 1.2}, 0.0, step)


def rows() -> list[Row]:
    return [row(name, model) for name in SPEEDS for model in range(6)]


def test_the_best_is_first_where_predictions_are_right() -> None:
    found = ranking_accuracy(rows(), CATALOGUE)
    for tier in ("calibrated", "one-anchor", "data-sheet"):
        for what in ("cost", "time"):
            assert found[tier][what]["best_is_first"] == 1
            assert found[tier][what]["best_is_among_first_two"] == 1
            assert found[tier][what]["largest_excess"] == 0
    assert found["calibrated"]["time"]["works"] == found["calibrated"]["time"]["works_on_three_or_more"] == 6
    assert found["one-anchor"]["time"]["works"] == 3 * 6


def test_a_gpu_that_is_slower_than_predicted_costs_more_than_the_best() -> None:
    surprise = [row for row in rows() if (row.step.gpu.name, row.step.model) != ("A100-40GB", "model 5")]
    surprise.append(row("A100-40GB", 5, factor=4.0))
    found = ranking_accuracy(surprise, CATALOGUE)["calibrated"]["time"]
    assert found["best_is_first"] == pytest.approx(5 / 6, abs=1e-4)
    # 8 / 3 times as fast as a V100 by its data, and 4 times slower than that.
    assert found["largest_excess"] == pytest.approx(4 * 3 / 8 - 1, rel=0.01)


def test_the_fastest_measured_batch_of_a_gpu_counts_for_each_unit_of_work() -> None:
    more = [*rows(), *(replace(row, seconds=9.0) for row in rows())]
    large = [replace(row, step=replace(row.step, units=2.0), seconds=1.5 * row.seconds) for row in rows()]
    for others in (more, [*rows(), *large]):
        assert ranking_accuracy(others, CATALOGUE)["data-sheet"]["time"]["best_is_first"] == 1


def test_prices_are_those_of_one_gpu() -> None:
    prices = gpu_prices(CATALOGUE)
    assert 0.3 < prices["T4"] < prices["V100-16GB"] < prices["H100"] < 20
