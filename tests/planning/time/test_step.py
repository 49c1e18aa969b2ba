"""Time of a step: what bounds it, and what must hold for any."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuproof.planning.coefficients import builtin_coefficients
from gpuproof.planning.scaling import scaled
from gpuproof.planning.time import estimate_step, input_seconds, launch_seconds
from gpuproof.trace.document import Input, Operator, Sharding
from support.plan_examples import gpu, gpus, training


@pytest.mark.parametrize("name", gpus())
def test_every_gpu_has_an_estimate_with_ordered_limits(name: str) -> None:
    result = estimate_step(training(512), gpu(name))
    assert 0 < result.step.low <= result.step.value <= result.step.high
    assert result.gpu_s == pytest.approx(sum(result.by_class.values()))


@settings(deadline=None, max_examples=30)
@given(
    batch=st.integers(1, 10_000), more=st.integers(256, 10_000), name=st.sampled_from(["T4", "A10G", "H100"])
)
def test_a_larger_batch_takes_longer_but_less_per_sample(batch: int, more: int, name: str) -> None:
    first, second = training(256), training(512)
    small, big = (estimate_step(scaled(first, second, size), gpu(name)) for size in (batch, batch + more))
    assert small.gpu_s <= big.gpu_s * 1.3  # one wave of tiles may be fuller than another
    assert big.gpu_s / (batch + more) <= small.gpu_s / batch * 1.3


def test_a_faster_gpu_is_faster_at_large_products() -> None:
    trace = training(8192, parameters=50_000_000)
    times = [estimate_step(trace, gpu(name)).gpu_s for name in ("T4", "A100-40GB", "H100")]
    assert times == sorted(times, reverse=True)


def test_small_operators_wait_for_their_launches() -> None:
    trace = replace(training(1, parameters=1000), host_operators=5000)
    result = estimate_step(trace, gpu("H100"))
    assert result.bound == "launches"
    assert result.step.value == result.launch_s > result.gpu_s


def test_python_calls_the_forward_pass_and_pytorch_the_rest() -> None:
    called = Operator("aten.relu", "elementwise", "float32", "forward", 0, 0, 1, (), 1000)
    known = builtin_coefficients()
    forward, backward = (
        replace(training(1), operators=[replace(called, phase=phase)], host_operators=1000)
        for phase in ("forward", "backward")
    )
    call, other = known.time["host_s_per_call"], known.time["host_s_per_operator"]
    assert launch_seconds(forward, known) == pytest.approx(1000 * call)
    assert launch_seconds(backward, known) == pytest.approx(1000 * other)
    assert 2 * other < call
    assert launch_seconds(replace(forward, framework="tensorflow"), known) == pytest.approx(1000 * other)
    assert launch_seconds(replace(forward, compiled=True), known) < 1000 * call


def test_launches_have_limits_of_their_own() -> None:
    trace = replace(training(1, parameters=1000), host_operators=5000)
    low, high = builtin_coefficients().time["launch_spread"]
    step = estimate_step(trace, gpu("A100-80GB")).step
    assert (step.low, step.high) == pytest.approx((step.value * low, step.value * high))


def test_a_part_of_fsdps_collectives_is_never_hidden() -> None:
    trace = replace(training(2_000_000, parameters=50_000_000), strategy="fsdp")
    result = estimate_step(trace, gpu("A100-40GB"), gpus=2)
    exposed = builtin_coefficients().time["fsdp_exposed"]
    # 200 MB three times, a half of it, at 70 % of 300 GB/s.
    assert result.communication_s == pytest.approx(exposed * 3 * 2e8 / 2 / (0.7 * 300e9), rel=0.01)


def test_a_slow_loader_bounds_the_step_and_workers_help() -> None:
    slow = training(64, host_s=2.0, workers=4)
    result = estimate_step(slow, gpu("T4"), vcpus=8)
    assert (result.bound, result.input_s) == ("input", 0.5)
    assert result.step.value == 0.5


def test_loading_in_the_scripts_process_adds_to_the_launches() -> None:
    result = estimate_step(training(64, host_s=2.0), gpu("T4"), vcpus=8)
    assert result.bound == "input"
    assert result.step.value == pytest.approx(2.0 + result.launch_s)


@pytest.mark.parametrize(
    ("workers", "vcpus", "gpus_", "seconds"),
    [
        (0, 64, 1, 8.0),
        (8, None, 1, 1.0),
        (8, 64, 1, 1.0),
        (8, 4, 1, 8 / 2.5),  # two cores, and two more threads that add a quarter each
        (8, 64, 8, 8 / 5),  # 8 vCPUs for each GPU: four cores and four threads
        (8, 1, 1, 8.0),
    ],
)
def test_seconds_of_the_input_pipeline(workers: int, vcpus: int | None, gpus_: int, seconds: float) -> None:
    trace = training(64, host_s=8.0, workers=workers)
    assert input_seconds(trace, vcpus, gpus_) == pytest.approx(seconds)


def test_synthetic_data_say_nothing_of_the_input() -> None:
    trace = replace(training(64), input=Input(samples=64, host_s=5.0, synthetic=True))
    assert estimate_step(trace, gpu("T4")).input_s is None


def test_large_products_are_bound_by_compute_and_additions_by_bandwidth() -> None:
    product = Operator("aten.mm", "gemm", "float16", "forward", 1e14, 1e8, 1, (), 1, (1, 8192, 8192, 8192))
    addition = Operator("aten.add", "elementwise", "float16", "forward", 1e8, 1e10, 1, (), 1)
    for operator, bound in ((product, "compute"), (addition, "bandwidth")):
        trace = replace(training(1), operators=[operator], host_operators=1)
        assert estimate_step(trace, gpu("A100-40GB")).bound == bound


def test_the_tier_is_that_of_the_precision_that_matters() -> None:
    half = Operator("aten.mm", "gemm", "float16", "forward", 1e14, 1e8, 1, (), 1, (1, 8192, 8192, 8192))
    trace = replace(training(1), operators=[half])
    assert estimate_step(trace, gpu("A100-80GB")).tier == "calibrated"
    assert estimate_step(trace, gpu("T4")).tier == "one-anchor"
    assert estimate_step(trace, gpu("L40S")).tier == "data-sheet"
    widths = [
        (result.step.high - result.step.low) / result.step.value
        for result in (estimate_step(trace, gpu(name)) for name in ("A100-80GB", "T4"))
    ]
    assert widths == sorted(widths)


def test_gradients_of_several_gpus_cross_the_slowest_link() -> None:
    trace = replace(training(1, parameters=1_000_000_000), strategy="ddp")
    alone, nvlink, pcie = (
        estimate_step(trace, gpu(name), gpus=count).communication_s
        for name, count in (("A100-40GB", 1), ("A100-40GB", 8), ("T4", 8))
    )
    network = estimate_step(trace, gpu("A100-40GB"), gpus=8, hosts=2, network_gbps=10).communication_s
    assert alone == 0 < nvlink < pcie < network
    # 4 GB of gradients, twice 15/16 of them, at 75 % of 10 Gbit/s; a step of one sample hides little.
    assert network == pytest.approx(2 * 15 / 16 * 4e9 / (0.75 * 1.25e9), rel=0.1)


def test_computation_hides_all_but_the_last_bucket() -> None:
    trace = replace(training(200_000, parameters=50_000_000), strategy="ddp")
    result = estimate_step(trace, gpu("A100-40GB"), gpus=2)
    # 25 MiB, twice a half of it, at 70 % of 300 GB/s.
    assert result.communication_s == pytest.approx(25 * 2**20 / (0.7 * 300e9))


def test_fsdp_moves_half_as_much_again_as_ddp() -> None:
    times = [
        estimate_step(
            replace(training(1, parameters=1_000_000_000), strategy=strategy), gpu("T4"), gpus=8
        ).communication_s
        for strategy in ("ddp", "fsdp")
    ]
    assert times[1] / times[0] == pytest.approx(1.5, rel=0.05)


def test_fsdp_that_keeps_its_parameters_gathers_them_once() -> None:
    trace = replace(training(1, parameters=1_000_000_000), strategy="fsdp")
    twice, once = (
        estimate_step(
            replace(trace, sharding=Sharding([4_000_000_000], keeps)), gpu("T4"), gpus=8
        ).communication_s
        for keeps in (False, True)
    )
    assert twice / once == pytest.approx(1.5, rel=0.05)


def test_a_compiled_model_launches_less_and_may_be_faster() -> None:
    trace = replace(training(1, parameters=1000), host_operators=5000)
    eager, compiled = (estimate_step(replace(trace, compiled=on), gpu("H100")) for on in (False, True))
    assert compiled.launch_s < eager.launch_s / 2
    assert compiled.step.low / compiled.step.value < eager.step.low / eager.step.value


def test_a_part_of_a_gpu_takes_longer_but_loads_as_fast() -> None:
    trace = training(4096, parameters=50_000_000, host_s=0.001, workers=1)
    whole, quarter = (estimate_step(trace, gpu("L4"), fraction=share, vcpus=4) for share in (1.0, 0.25))
    assert quarter.gpu_s == pytest.approx(4 * whole.gpu_s)
    assert (quarter.input_s, quarter.launch_s) == (whole.input_s, whole.launch_s)
    assert quarter.tier == "data-sheet"
