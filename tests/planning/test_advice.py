"""What would make a step faster: workers where the input is slow, mixed precision where tensor cores are idle."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuproof.catalogue import Catalogue
from gpuproof.planning.advice import Advice, advise, in_half_precision
from gpuproof.planning.candidates import find_candidates
from gpuproof.planning.time import input_seconds
from gpuproof.trace.document import Input, Memory, Operator, Trace

CANDIDATES = {candidate.name: candidate for candidate in find_candidates(Catalogue.load(), "us-east-1", 1)}
T4 = CANDIDATES["T4"]
SIZE = 4096


def product(dtype: str = "float32", kind: str = "gemm") -> Operator:
    """A product of two large matrices."""
    return Operator(
        *("aten.mm", kind, dtype, "forward", 2.0 * SIZE**3, 12.0 * SIZE**2, 1),
        *(((SIZE, SIZE), (SIZE, SIZE)), 1, (1, SIZE, SIZE, SIZE)),
    )


def trace(host_s: float | None = None, workers: int = 0, **keys: object) -> Trace:
    """A script that multiplies two matrices a step."""
    made = Trace(
        *("torch", "2.13.0", "training", 2, [product()], Memory([], [0, 0]), 1, 10, 10, 40),
        input=Input(samples=32, host_s=host_s, workers=workers, steps_per_epoch=100),
        precision="float32",
    )
    return replace(made, **keys)  # type: ignore[arg-type]


def only(found: tuple[Advice, ...]) -> Advice:
    (advice,) = found
    return advice


class TestInput:
    def test_a_loader_without_workers_is_told_how_many_to_take(self) -> None:
        slow = trace(host_s=0.4)
        advice = only(advise(slow, T4, 1))
        assert advice.code == "input-workers"
        assert "num_workers=0 takes 400 ms per batch, a T4 needs about" in advice.text
        then = input_seconds(replace(slow, input=replace(slow.input, workers=4)), 4, 1)
        assert then is not None
        assert f"num_workers=4 on 4 vCPUs: about {then * 1e3:.3g} ms." in advice.text
        assert advice.seconds_then < advice.seconds

    def test_what_more_workers_cannot_keep_up_with_is_said(self) -> None:
        text = only(advise(trace(host_s=4.0), T4, 1)).text
        assert "prepare the data once" in text

    def test_enough_workers_already(self) -> None:
        advice = only(advise(trace(host_s=4.0, workers=8), T4, 1))
        assert "More workers do not help on 4 vCPUs." in advice.text
        assert advice.seconds_then == advice.seconds

    def test_tensorflow_is_told_its_own_way(self) -> None:
        text = only(advise(trace(host_s=0.4, framework="tensorflow"), T4, 1)).text
        assert "num_parallel_calls=tf.data.AUTOTUNE" in text
        assert "num_workers" not in text

    @pytest.mark.parametrize(
        "fast", [trace(host_s=0.001, precision="amp-float16"), trace(precision="amp-float16")]
    )
    def test_an_input_that_keeps_up_gets_no_advice(self, fast: Trace) -> None:
        assert advise(fast, T4, 1) == ()

    def test_a_served_model_has_no_input_pipeline(self) -> None:
        assert advise(trace(host_s=4.0, mode="serving"), T4, 1) == ()


class TestPrecision:
    @pytest.mark.parametrize("name", ["T4", "A10G", "L4", "H100"])
    def test_float32_leaves_tensor_cores_idle(self, name: str) -> None:
        advice = only(advise(trace(), CANDIDATES[name], 1))
        assert advice.code == "mixed-precision"
        assert advice.gpu == name
        assert advice.seconds_then < advice.seconds / 1.1
        assert "torch.autocast" in advice.text

    @pytest.mark.parametrize("precision", ["amp-float16", "amp-bfloat16", "bfloat16"])
    def test_a_script_that_uses_them_gets_no_advice(self, precision: str) -> None:
        half = [product("float16")]
        assert advise(trace(precision=precision, operators=half), T4, 1) == ()

    def test_a_gpu_without_tensor_cores(self) -> None:
        assert T4.gpu.compute_capability is not None
        older = replace(T4, gpu=T4.gpu._replace(compute_capability=(6, 1)))
        assert advise(trace(), older, 1) == ()

    def test_what_gains_nothing_gets_no_advice(self) -> None:
        assert advise(trace(operators=[product(kind="elementwise")]), T4, 1) == ()

    def test_only_products_are_taken_to_be_in_half_precision(self) -> None:
        other = product(kind="elementwise")
        changed = in_half_precision(trace(operators=[product(), other]))
        assert [operator.dtype for operator in changed.operators] == ["float16", "float32"]
        assert changed.operators[0].bytes == product().bytes / 2
        assert changed.operators[1] == other
