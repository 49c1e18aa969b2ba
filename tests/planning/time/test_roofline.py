"""Seconds of single operators, computed by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuproof.planning.coefficients import Coefficients, builtin_coefficients
from gpuproof.planning.time import operator_cost, tile_efficiency
from gpuproof.trace.document import Operator
from support.plan_examples import gpu

RATES = {"compute": 0.5, "bandwidth": 0.8, "slowdown": {"norm": 2.0}}
EXACT = Coefficients(
    {}, {"gpus": {}, "default": dict.fromkeys(("float32", "tf32", "half"), RATES), "kernel_s": 1e-6}
)


def operator(
    kind: str, dtype: str, flops: float, size: float, *, kernels: int = 1, gemm: tuple[int, ...] = ()
) -> Operator:
    return Operator("aten.some", kind, dtype, "forward", flops, size, kernels, (), 1, gemm)


def seconds(traced: Operator, name: str, framework: str = "torch") -> float:
    return operator_cost(traced, gpu(name), framework, EXACT).seconds


def test_an_elementwise_operator_takes_as_long_as_its_memory_traffic() -> None:
    # A T4 has 320 GB/s, of which 80 % are reached.
    cost = operator_cost(operator("elementwise", "float32", 1e6, 256e6), gpu("T4"), "torch", EXACT)
    assert cost.seconds == pytest.approx(1e-3 + 1e-6)
    assert not cost.by_compute


def test_a_slow_class_takes_a_multiple() -> None:
    assert seconds(operator("norm", "float32", 0, 256e6), "T4") == pytest.approx(2e-3 + 1e-6)


@pytest.mark.parametrize(
    ("kind", "dtype", "name", "framework", "tflops"),
    [
        ("gemm", "float16", "T4", "torch", 65),
        ("gemm", "bfloat16", "T4", "torch", 8.1),  # no BF16 on Turing
        ("gemm", "float32", "A100-40GB", "torch", 19.5),
        ("conv", "float32", "A100-40GB", "torch", 156),  # PyTorch allows TF32 for convolutions
        ("gemm", "float32", "A100-40GB", "tensorflow", 156),  # TensorFlow for all products
        ("conv", "float32", "V100-16GB", "torch", 15.7),
        ("depthwise-conv", "float16", "T4", "tensorflow", 8.1),  # tensor cores do not compute it
        ("grouped-conv", "float16", "T4", "torch", 8.1),  # nor this, unless channels are last
        ("attention", "bfloat16", "H100", "torch", 989.4 * 0.62),  # with instructions of Ampere
        ("attention", "bfloat16", "A100-40GB", "torch", 312),
        ("gemm", "bfloat16", "H100", "torch", 989.4),
    ],
)
def test_the_peak_is_that_of_the_precision(
    kind: str, dtype: str, name: str, framework: str, tflops: float
) -> None:
    traced = operator(kind, dtype, 1e13, 1e3)
    assert seconds(traced, name, framework) == pytest.approx(1e13 / (tflops * 1e12 * 0.5) + 1e-6)
    assert operator_cost(traced, gpu(name), framework, EXACT).by_compute


def test_a_view_takes_no_time_and_a_copy_crosses_pcie() -> None:
    assert seconds(operator("elementwise", "float32", 0, 0, kernels=0), "T4") == 0
    assert seconds(operator("copy", "float32", 0, 12e9), "T4") == pytest.approx(1.0)


FP32 = 19.5e12
"""Of an A100."""


def test_a_full_wave_of_large_tiles_loses_only_the_start_of_a_tile() -> None:
    # 108 tiles of 128 x 128 on the 108 multiprocessors of an A100, each with 4 microseconds beside its 4096 steps.
    steps = 4e-6 * FP32 / 108 / (2 * 128 * 128)
    efficiency = tile_efficiency((1, 128 * 108, 128, 4096), gpu("A100-40GB"), FP32)
    assert efficiency == pytest.approx(4096 / (4096 + steps))


def test_faster_units_lose_more_to_the_start_of_a_tile() -> None:
    shape = (1, 128 * 108, 128, 1024)
    slow, fast = (tile_efficiency(shape, gpu("A100-40GB"), peak) for peak in (FP32, 16 * FP32))
    assert fast < 0.8 < slow


def test_one_tile_more_than_a_wave_costs_a_second_wave() -> None:
    full = tile_efficiency((1, 128 * 108, 128, 4096), gpu("A100-40GB"), FP32)
    assert tile_efficiency((1, 128 * 109, 128, 4096), gpu("A100-40GB"), FP32) < 0.9 * full


def test_a_batch_of_small_products_fills_small_tiles() -> None:
    small = tile_efficiency((4096, 32, 32, 64), gpu("A100-40GB"), FP32)
    assert 0.3 < small < tile_efficiency((4096, 128, 128, 64), gpu("A100-40GB"), FP32)


def test_a_convolution_in_half_precision_copies_tensors_unless_channels_are_last() -> None:
    shape = (1, 4096, 64, 576)
    contiguous = replace(operator("conv", "float16", 1e9, 256e6, gemm=shape), name="aten.convolution")
    last = replace(contiguous, layout="channels-last")
    costs = [operator_cost(traced, gpu("T4"), "torch", EXACT) for traced in (contiguous, last)]
    # 256 MB at 80 % of 320 GB/s.
    assert [cost.copies for cost in costs] == pytest.approx([1e-3, 0])
    assert costs[0].seconds - costs[1].seconds == pytest.approx(1e-3)


def test_the_coefficients_are_plausible() -> None:
    known = builtin_coefficients()
    for name in [*known.time["gpus"], "unknown"]:
        for precision in ("float32", "tf32", "half"):
            rates = known.rates(name, precision)
            assert 0.2 < rates.compute <= 1.1, name
            assert 0.5 < rates.bandwidth <= 1, name
            assert all(0.2 <= value < 6 for value in rates.slowdown.values()), name
            assert rates.source, name
    assert known.rates("unknown", "half").tier == "data-sheet"
    for tier in ("calibrated", "one-anchor", "data-sheet"):
        low, high = known.spread(tier)
        assert 0.3 < low <= 1 <= high < 3


def test_measurements_of_ones_own_take_precedence() -> None:
    own = {
        "time": {"gpus": {"T4": {"half": {"compute": 0.9, "tier": "calibrated", "source": "measured here"}}}}
    }
    merged = builtin_coefficients().merged(own).rates("T4", "half")
    assert (merged.compute, merged.tier) == (0.9, "calibrated")
    assert merged.slowdown == builtin_coefficients().rates("T4", "half").slowdown
    assert builtin_coefficients().rates("T4", "half").compute != 0.9


def test_copies_into_another_layout_may_have_a_slowdown_of_their_own() -> None:
    traced = replace(operator("conv", "float32", 1.0, 1e9), name="aten.convolution")
    known = replace(EXACT, time={**EXACT.time, "gpus": {"H100": {"tf32": {"slowdown": {"layout": 3.0}}}}})
    found = [operator_cost(traced, gpu("H100"), "torch", which).copies for which in (EXACT, known)]
    assert found[1] == pytest.approx(3 * found[0])


def test_the_statistics_of_a_batch_wait_for_one_block_for_each_channel() -> None:
    images = (64, 128, 56, 56)
    traced = replace(
        operator("norm", "float16", 1.0, 1e6),
        name="aten.native_batch_norm",
        shapes=(images,),
        layout="contiguous",
    )
    trained = operator_cost(traced, gpu("H100"), "torch", EXACT).seconds
    # 128 blocks of the 132 multiprocessors.
    assert trained == pytest.approx(64 * 56 * 56 / 1.6e9 + 1e-6)
    assert operator_cost(traced, gpu("H100"), "torch", EXACT, training=False).seconds < trained / 10


def test_a_gpu_may_lose_less_to_the_start_of_a_tile() -> None:
    known = replace(EXACT, time={**EXACT.time, "gpus": {"H100": {"half": {"tile_s": 3e-7}}}})
    product = operator("gemm", "float16", 2.0 * 4096**2 * 768, 1.0, gemm=(1, 4096, 4096, 768))
    slow, fast = (operator_cost(product, gpu("H100"), "torch", which).seconds for which in (EXACT, known))
    assert fast < 0.6 * slow


def test_an_operator_that_fits_into_the_cache_reads_what_was_just_written() -> None:
    # 48 MiB, and a byte more; an A10G has 6 MB, and a product reads its matrices again and again in any case.
    small, large = (operator("elementwise", "float32", 0, (48 << 20) + more) for more in (0, 1))
    assert seconds(large, "L4") / seconds(small, "L4") == pytest.approx(2, rel=0.01)
    assert seconds(large, "A10G") / seconds(small, "A10G") == pytest.approx(1, rel=0.01)
    products = [operator("bmm", "float32", 0, (48 << 20) + more) for more in (0, 1)]
    assert seconds(products[1], "L4") / seconds(products[0], "L4") == pytest.approx(1, rel=0.01)
