"""Whether a job fits, by hand-computed figures and by what must hold for any."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuproof.planning.coefficients import Coefficients, builtin_coefficients, usable_memory
from gpuproof.planning.estimates import Interval
from gpuproof.planning.memory import estimate_memory, fit, largest_batch, replay, unlimited_replays
from gpuproof.planning.scaling import scaled, sharded
from gpuproof.trace.document import CUBLAS_WORKSPACE, Memory, Operator, Sharding, Trace
from support.plan_examples import GIB, MIB, blocks, gpu, gpus, training

EXACT = Coefficients({"context_mib": {"default": [1024, 1024, 1024]}, "spread": [1.0, 1.25]}, {})


def one_block(size: int) -> Memory:
    return Memory(blocks(activation=size), [1, -1, 0])


@pytest.mark.parametrize(
    ("gib", "expected"),
    [(4, "fits"), (10, "fits"), (11, "borderline"), (13, "borderline"), (14, "does-not-fit")],
)
def test_a_t4_has_14_and_a_half_gib_of_which_the_context_takes_one(gib: int, expected: str) -> None:
    trace = replace(training(1), memory=one_block(gib * GIB))
    memory = estimate_memory(trace, gpu("T4"), coefficients=EXACT)
    assert memory.required == Interval((gib + 1) * GIB, (gib + 1) * GIB, (gib * 1.25 + 1) * GIB)
    result = fit(memory, gpu("T4"))
    assert result.fit == expected
    assert result.usable == 14912 * MIB
    assert result.headroom == result.usable - (gib + 1) * GIB


def test_a_slice_of_a_gpu_has_its_share() -> None:
    whole = usable_memory(gpu("L4"))
    assert usable_memory(gpu("L4"), 0.125) == whole // 8
    trace = replace(training(1), memory=one_block(4 * GIB))
    memory = estimate_memory(trace, gpu("L4"), fraction=0.125, coefficients=EXACT)
    assert fit(memory, gpu("L4"), fraction=0.125).fit == "does-not-fit"


@pytest.mark.parametrize("name", gpus())
def test_every_gpu_has_less_usable_than_nominal_memory(name: str) -> None:
    assert 0.9 * gpu(name).memory_gb * 1e9 < usable_memory(gpu(name)) < gpu(name).memory_gb * GIB


def test_a_context_before_cuda_11_7_takes_more() -> None:
    known = builtin_coefficients()
    assert known.context("T4", "11.3").value > known.context("T4", "12.4").value == known.context("T4").value


def test_workspaces_of_cublas_are_larger_on_hopper() -> None:
    memory = Memory(blocks(activation=40 * MIB, workspace=CUBLAS_WORKSPACE), [1, 2, 0])
    trace = replace(training(1), memory=memory)
    once = unlimited_replays(memory)
    for name, workspace in (
        ("T4", 8320 * 1024),
        ("L40S", 8320 * 1024),
        ("H100", 32 * MIB),
        ("B200", 32 * MIB),
    ):
        for unlimited in (None, once(gpu(name))):
            estimate = estimate_memory(trace, gpu(name), unlimited=unlimited)
            assert estimate.allocated == 40 * MIB + workspace


@settings(deadline=None, max_examples=30)
@given(
    batch=st.integers(1, 2000), more=st.integers(32, 2000), name=st.sampled_from(["T4", "A100-40GB", "H100"])
)
def test_a_larger_batch_needs_no_less_and_is_no_likelier_to_fit(batch: int, more: int, name: str) -> None:
    first, second = training(8), training(16)
    small, large = (estimate_memory(scaled(first, second, size), gpu(name)) for size in (batch, batch + more))
    assert small.allocated <= large.allocated
    assert small.required.low <= small.required.value <= small.required.high
    if not large.out_of_memory:
        # A batch of 32 more has 128 MiB more of activations, which is more than a segment's size may differ by.
        assert small.required.value <= large.required.value
    order = ["fits", "borderline", "does-not-fit"]
    results = fit(small, gpu(name)), fit(large, gpu(name))
    assert order.index(results[0].fit) <= order.index(results[1].fit)
    assert results[0].probability >= results[1].probability - 1e-9


def test_scaling_two_traces_gives_the_trace_of_a_third_batch_size() -> None:
    result = scaled(training(8), training(16), 24)
    assert (result.operators, result.memory) == (training(24).operators, training(24).memory)
    assert (result.input.samples, result.input.bytes) == (24, 24 * MIB)
    assert result.input.steps_per_epoch == 34
    assert scaled(training(8), training(16), 4).memory == training(4).memory


def test_traces_that_differ_in_their_order_are_scaled_by_category() -> None:
    first, second = training(8), training(16)
    other = replace(second, memory=replace(second.memory, events=list(reversed(second.memory.events))))
    assert scaled(first, other, 24).memory == training(24).memory


def test_the_batch_size_of_the_first_trace_must_be_known() -> None:
    first = replace(training(8), input=replace(training(8).input, samples=None))
    with pytest.raises(ValueError, match="batch sizes"):
        scaled(first, training(16), 32)
    assert scaled(first, training(16), 32, base=8).operators == training(32).operators


def test_the_largest_batch_is_the_last_one_that_fits() -> None:
    largest = largest_batch(training(8), training(16), gpu("T4"))
    assert largest is not None
    for batch, fits in ((largest, True), (largest + 1, False)):
        memory = estimate_memory(training(batch), gpu("T4"))
        assert (fit(memory, gpu("T4")).fit == "fits") is fits


def test_no_batch_fits_if_the_model_does_not() -> None:
    first, second = (training(size, parameters=3 * GIB) for size in (8, 16))
    assert largest_batch(first, second, gpu("T4")) is None


def test_fsdp_divides_parameters_gradients_and_optimizer_state() -> None:
    memory = Memory(
        blocks(parameter=80 * MIB, gradient=80 * MIB, optimizer=160 * MIB, activation=40 * MIB),
        [1, 4, 2, -4, 3, -2, 0],
    )
    trace = replace(training(1), memory=memory)
    assert sharded(trace, 1) is trace
    result = estimate_memory(sharded(trace, 4), gpu("T4"))
    # A quarter of each; and the parameters are gathered, of which there is only one unit here.
    assert result.by_category == {
        "parameter": 20 * MIB,
        "gradient": 20 * MIB,
        "activation": 40 * MIB,
        "temporary": 80 * MIB,
    }


def test_of_a_model_with_layers_fsdp_gathers_two() -> None:
    layers = [block for _ in range(20) for block in blocks(parameter=8 * MIB)]
    trace = replace(training(1), memory=Memory(layers, [*range(1, 21), 0]))
    # 20 matrices are 10 layers of 16 MiB.
    assert sharded(trace, 2).memory.blocks[-1][0] == 2 * 16 * MIB


def sharded_units(**options: Any) -> Trace:
    """Two layers of 20 MiB and the rest of a model of 64 MiB, with as much gradients."""
    memory = Memory(blocks(parameter=64 * MIB, gradient=64 * MIB), [1, 2, 0])
    sharding = Sharding([20 * MIB, 20 * MIB, 24 * MIB], **options)
    return replace(training(1), memory=memory, strategy="fsdp", sharding=sharding)


def peak_of(memory: Memory, gradient: int = 2) -> tuple[int, int]:
    """What is allocated in MiB before gradients are made, and at most in the backward pass."""
    first = memory.events.index(gradient)
    before = replay(replace(memory, events=memory.events[: first - 1]))
    return before.allocated // MIB, replay(memory).allocated // MIB


def test_fsdp_holds_the_outermost_unit_two_others_and_in_the_backward_pass_gradients() -> None:
    memory = sharded(sharded_units(), 4).memory
    assert [size for size, _ in memory.blocks[:2]] == [16 * MIB, 16 * MIB]
    # The share and three units; then the shares of gradients, those of the outermost unit, and twice those of another one.
    assert peak_of(memory) == (16 + 24 + 2 * 20, 16 + 24 + 2 * 20 + 16 + 24 + 2 * 20)


def test_gradients_that_are_reduced_in_float32_are_twice_as_large_as_they_are_made() -> None:
    memory = sharded(sharded_units(reduce_factor=2.0), 4).memory
    assert peak_of(memory)[1] == 16 + 24 + 2 * 20 + 16 + 24 + (1 + 2) * 20


def test_units_that_stay_gathered_are_all_there() -> None:
    trace = replace(sharded_units(), sharding=Sharding([10 * MIB] * 6, True))
    assert peak_of(sharded(trace, 4).memory)[0] == 16 + 60


def test_the_gradients_of_a_large_outermost_unit_are_sent_when_its_parameters_are_free_again() -> None:
    trace = replace(sharded_units(), sharding=Sharding([5 * MIB, 5 * MIB, 50 * MIB], reduce_factor=2.0))
    assert peak_of(sharded(trace, 4).memory) == (16 + 50 + 2 * 5, 16 + 16 + (1 + 2) * 50)


def test_gradients_that_are_set_to_zero_and_kept_are_whole_in_later_steps() -> None:
    trace = sharded_units()
    trace = replace(trace, memory=replace(trace.memory, events=[1, 2, 0, 0]))
    result = sharded(trace, 4).memory
    assert max(replay(result).timeline) // MIB == 16 + 16 + 24 + 2 * 20 + 24 + 2 * 20


def test_shares_of_gradients_leave_memory_that_activations_cannot_use() -> None:
    memory = Memory(
        blocks(parameter=64 * MIB, gradient=64 * MIB, activation=16 * MIB), [1, 2, -2, 0, 3, -3, 0]
    )
    trace = replace(sharded_units(), memory=memory)
    result = sharded(trace, 4).memory
    separate, shared = (
        replay(replace(result, communication=blocks)) for blocks in (result.communication, frozenset[int]())
    )
    assert separate.allocated == shared.allocated
    assert (separate.reserved - shared.reserved) // MIB == 16


def test_what_fully_shard_gathers_comes_through_a_buffer() -> None:
    plain, copied = (sharded(sharded_units(copies_gathered=copies), 4).memory for copies in (False, True))
    assert replay(copied).reserved - replay(plain).reserved == 2 * 20 * MIB


def test_shares_in_float32_of_a_model_that_computes_in_half_precision_are_twice_as_large() -> None:
    trace = sharded_units(share_factor=2.0)
    for count in (1, 4):
        assert sharded(trace, count).memory.blocks[0][0] == 64 * MIB * 2 // count


def test_the_optimizer_changes_its_share_alone() -> None:
    update = Operator("aten._foreach_add_", "optimizer", "float32", "optimizer", 8.0, 800.0, 1, (), 1)
    trace = replace(sharded_units(share_factor=2.0), operators=[update])
    (found,) = sharded(trace, 4).operators
    assert (found.flops, found.bytes) == (4.0, 400.0)


def test_tensorflow_needs_what_is_in_use_and_not_a_segment_for_each_size() -> None:
    # 40 MiB in one block, then 60 MiB: PyTorch keeps the segment of the first, TensorFlow merges what is free.
    memory = Memory(blocks(activation=40 * MIB, temporary=60 * MIB), [1, -1, 2, -2, 0])
    torch = replace(training(1), memory=memory)
    sizes = [
        estimate_memory(replace(torch, framework=name), gpu("T4"), coefficients=EXACT).reserved
        for name in ("torch", "tensorflow")
    ]
    assert sizes == [100 * MIB, 60 * MIB]
    huge = replace(torch, framework="tensorflow", memory=one_block(15 * GIB))
    result = estimate_memory(huge, gpu("T4"), coefficients=EXACT)
    assert result.out_of_memory
    assert fit(result, gpu("T4")).fit == "does-not-fit"
