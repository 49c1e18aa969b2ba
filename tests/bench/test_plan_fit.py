"""The fit of coefficients finds those by which the measurements were made."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from statistics import median

import pytest
from bench.plan.fit import Row, _neusight_gpu  # pyright: ignore[reportPrivateUsage]
from bench.plan.measured_steps import MeasuredStep
from bench.plan.memory_accuracy import Peak, fit_memory
from bench.plan.tables import OperatorTime, timm_memory
from bench.plan.time_accuracy import family, predictions, spreads, stricter

from gpuproof.planning.calibration.regression import fit_slowdowns, predict
from gpuproof.planning.memory import Replay
from support.plan_examples import MIB, gpu, training

TRUE = {"gemm": 1.4, "elementwise": 0.9, "norm": 2.1}


def rows(count: int) -> list[Row]:
    found: list[Row] = []
    for index in range(count):
        by_class = {
            "gemm": 0.01 * (1 + index % 5),
            "elementwise": 0.02 * (1 + index % 3),
            "norm": 0.005 * (1 + index % 7),
        }
        seconds = sum(TRUE[kind] * value for kind, value in by_class.items()) + 0.001
        step = MeasuredStep("table", f"model {index}", gpu("T4"), training(1), seconds)
        found.append(Row(seconds, by_class, 0.001, step))
    return found


def test_slowdowns_are_found_and_a_class_without_measurements_keeps_its_prior() -> None:
    found = fit_slowdowns(rows(40), {"conv": 1.7}, ridge=1e-6)
    assert {kind: found[kind] for kind in TRUE} == pytest.approx(TRUE, rel=0.01)
    assert found["conv"] == pytest.approx(1.7)


def test_a_row_that_something_else_slowed_down_changes_little() -> None:
    wrong = rows(40)
    wrong[7] = replace(wrong[7], seconds=wrong[7].seconds * 5)
    found = fit_slowdowns(wrong, {}, ridge=1e-6)
    assert {kind: found[kind] for kind in TRUE} == pytest.approx(TRUE, rel=0.1)


def test_elementwise_operators_of_a_gpu_are_as_fast_as_they_were_measured() -> None:
    sizes = ("add", (1 << 13, 1 << 13), 3), ("ln", (1 << 13, 1 << 13), 2)
    measured = [
        OperatorTime(name, "T4", shape, 4 * count * (1 << 26) / 240e9) for name, shape, count in sizes
    ]
    measured += [OperatorTime(name, "T4", (8, 1 << 12, 1 << 12, 1 << 12), 0.5) for name in ("linear", "bmm")]
    found = _neusight_gpu(measured, gpu("T4"))
    assert (found["bandwidth"], found["slowdown"]["elementwise"], found["slowdown"]["norm"]) == (
        0.75,
        1.0,
        1.0,
    )


def test_four_of_five_measurements_are_within_the_limits() -> None:
    own = rows(100)
    pairs = [(row, predict(row, TRUE) / (0.5 + index / 100)) for index, row in enumerate(own)]
    low, high = spreads({"calibrated": pairs})["calibrated"]
    assert low == pytest.approx(0.6, abs=0.02)
    assert high == pytest.approx(1.4, abs=0.02)


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("resnet101", "resnet"),
        ("legacy_seresnet50", "resnet"),
        ("eca_resnext26ts", "resnext"),
        ("tf_efficientnetv2_b0", "efficientnet"),
        ("semnasnet_140", "mnasnet"),
        ("legacy_senet154", "senet"),
        ("swinv2_cr_tiny_224", "swin"),
        ("vit_base_patch16_224", "vit"),
    ],
)
def test_the_family_of_a_model(model: str, expected: str) -> None:
    assert family(model) == expected


def test_no_model_is_predicted_with_steps_of_its_own_family() -> None:
    # What two families have in common is wrong by a factor of two for one of them.
    own = [replace(row, step=replace(row.step, model=f"resnet{index}")) for index, row in enumerate(rows(20))]
    other = [
        replace(row, seconds=2 * row.seconds, step=replace(row.step, model=f"vit_{index}"))
        for index, row in enumerate(rows(20))
    ]
    by_family = dict(stricter([*own, *other]))["calibrated, image models by family"]
    errors = [value / row.seconds for row, value in by_family if row.step.model.startswith("resnet")]
    assert median(errors) > 1.7
    by_model = dict(predictions([*own, *other]))["calibrated"]
    errors = [value / row.seconds for row, value in by_model if row.step.model.startswith("resnet")]
    assert median(errors) < 1.6


def test_the_context_is_what_is_measured_more_than_reserved() -> None:
    peaks = [
        Peak(f"model {index}", 8, training(8), Replay(size * MIB, size * MIB, {}, []), (size + 1000) * MIB)
        for index, size in enumerate(range(1000, 20_000, 500))
    ]
    found = fit_memory(peaks)
    assert found == {"context_mib": {"A100-40GB": [1000, 1000, 1000]}, "spread": [1.0, 1.0]}


def test_a_table_with_failed_runs_is_cut_where_memory_stops_growing(tmp_path: Path) -> None:
    lines = ["model,batch_size,measured_max_gpu_memory_MiB"]
    lines += [f"good,{batch},{1000 + batch}" for batch in (8, 16, 32)]
    lines += [f"failed,{batch},{size}" for batch, size in ((8, 2000), (16, 3000), (32, 900), (64, 5000))]
    lines += ["never,8,500", "never,16,500"]
    (tmp_path / "timm_training_memory_a100_40gb.csv").write_text("\n".join(lines))
    assert timm_memory(tmp_path) == {
        "good": {8: 1008 * MIB, 16: 1016 * MIB, 32: 1032 * MIB},
        "failed": {8: 2000 * MIB, 16: 3000 * MIB},
    }
