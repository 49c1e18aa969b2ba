"""Tolerances of results."""

import pytest

from gpuproof.doctor.checks.compute.reading import Operation


@pytest.mark.parametrize(
    ("deviation", "right"), [(0.0, True), (1e-4, True), (2e-4, False), (float("nan"), False), (None, False)]
)
def test_an_answer_is_right_within_its_tolerance_and_not_a_number_never(
    deviation: float | None, right: bool
) -> None:
    assert Operation(0, "matmul", "float32", 1e-4, "cuda:0", deviation).right is right
