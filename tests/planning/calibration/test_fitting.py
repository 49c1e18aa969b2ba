"""Coefficients from measured steps, where the truth is known."""

from dataclasses import replace

import pytest

from gpuproof.catalogue import Catalogue
from gpuproof.planning.calibration.fitting import MOST_USED, Calibration, NotMeasured, calibrate
from gpuproof.planning.calibration.measurements import Key, MeasuredStep, Measurements
from gpuproof.planning.coefficients import MIB, Coefficients, builtin_coefficients
from gpuproof.planning.time import estimate_step
from gpuproof.planning.time.roofline import tile_efficiency
from gpuproof.trace.document import CATEGORIES, Memory, Operator, Trace

GPU = Catalogue.load().tables.gpus["L40S"]
KNOWN = builtin_coefficients()
COMPUTE, BANDWIDTH = 0.5, 0.6
SLOWDOWNS = {"gemm": 1.3, "conv": 0.8, "attention": 2.5, "elementwise": 1.6, "norm": 2.2, "index": 3.0}
TRUTH = KNOWN.merged(
    {
        "time": {
            "gpus": {
                GPU.name: {
                    precision: {"compute": COMPUTE, "bandwidth": BANDWIDTH, "slowdown": SLOWDOWNS}
                    for precision in ("float32", "half", "tf32")
                }
            }
        }
    }
)
SIZE = 4096
MODELS = {
    "products": {"gemm": 4, "elementwise": 2},
    "convolutions": {"conv": 6, "norm": 4, "elementwise": 3},
    "mixed": {"gemm": 3, "attention": 2, "norm": 2},
    "lookups": {"index": 5, "elementwise": 2, "gemm": 1},
}


def _operator(kind: str, calls: int, dtype: str) -> Operator:
    if kind in ("gemm", "conv"):
        shape = (1, SIZE, SIZE, SIZE)
        return Operator(kind, kind, dtype, "forward", 2.0 * SIZE**3, 6.0 * SIZE**2, calls, (), 1, shape)
    flops = 1e12 if kind == "attention" else 0.0
    return Operator(kind, kind, dtype, "forward", flops, 2e9, calls, (), 1)


def _trace(name: str, precision: str) -> Trace:
    dtype = "float16" if precision == "half" else "float32"
    operators = [_operator(kind, calls, dtype) for kind, calls in MODELS[name].items()]
    memory = Memory([(1 << 30, CATEGORIES.index("parameter"))], [1, 0, 0])
    return Trace("torch", "2.13.0", "training", 2, operators, memory, 1, 10, 10, 40)


TRACES: dict[Key, Trace] = {
    (name, precision, 8): _trace(name, precision) for name in MODELS for precision in ("float32", "half")
}


def _step(key: Key, truth: Coefficients = TRUTH) -> MeasuredStep:
    seconds = estimate_step(TRACES[key], GPU, coefficients=truth).step.value
    return MeasuredStep(*key, seconds, 1.05, 2 << 30, 700 * MIB)


def _measurements(**keys: object) -> Measurements:
    peaks = {"float32": GPU.fp32_tflops or 0.0, "half": GPU.fp16_tflops or 0.0}
    products = tuple(
        (
            precision,
            size,
            2.0
            * size**3
            / (peak * 1e12 * COMPUTE * tile_efficiency((1, size, size, size), GPU, peak * 1e12)),
        )
        for precision, peak in peaks.items()
        for size in (4096, 8192)
    )
    steps = tuple(_step(key) for key in TRACES)
    bandwidth = GPU.bandwidth * 1e9 * BANDWIDTH
    made = Measurements(
        "NVIDIA L40S", "2.13.0", "12.8", 1.8e9, False, 500 * MIB, products, bandwidth, steps, ()
    )
    return replace(made, **keys)  # type: ignore[arg-type]


def _calibrated(**keys: object) -> Calibration:
    return calibrate(_measurements(**keys), GPU, TRACES, KNOWN)


def _error(trace: Trace, known: Coefficients) -> float:
    truth = estimate_step(trace, GPU, coefficients=TRUTH).step.value
    return abs(estimate_step(trace, GPU, coefficients=known).step.value / truth - 1)


def test_the_truth_is_found_from_the_measured_steps() -> None:
    found = _calibrated()
    after = KNOWN.merged(found.coefficients)
    assert max(_error(trace, KNOWN) for trace in TRACES.values()) > 0.3
    for trace in TRACES.values():
        assert _error(trace, after) < 0.12  # the known slowdowns still count a little
    rates = after.rates(GPU.name, "half")
    assert (rates.compute, rates.bandwidth) == (pytest.approx(COMPUTE, rel=0.01), pytest.approx(BANDWIDTH))
    assert rates.tier == "calibrated"
    assert "gpuproof calibrate, 2027-01-15" in rates.source
    assert estimate_step(TRACES["mixed", "half", 8], GPU, coefficients=after).tier == "calibrated"


def test_other_gpus_stay_what_they_are() -> None:
    after = KNOWN.merged(_calibrated().coefficients)
    for name in ("A10G", "T4", "H100"):
        for precision in ("float32", "half", "tf32"):
            assert after.rates(name, precision) == KNOWN.rates(name, precision)
        assert after.context(name) == KNOWN.context(name)


def test_each_comparison_is_with_what_the_other_models_say() -> None:
    found = {comparison.step.key: comparison for comparison in _calibrated().comparisons}
    # No other model has convolutions: what they need is not known without it.
    alone = found["convolutions", "float32", 8]
    assert alone.after is not None
    assert abs(alone.after / alone.step.seconds - 1) > 0.1
    covered = found["products", "float32", 8]
    assert covered.after is not None
    assert abs(covered.after / covered.step.seconds - 1) < abs(covered.before / covered.step.seconds - 1)


def test_the_context_is_the_range_of_the_steps() -> None:
    keys = list(TRACES)
    steps = tuple(replace(_step(key), context=(600 + 10 * number) * MIB) for number, key in enumerate(keys))
    found = _calibrated(steps=steps)
    assert found.coefficients["memory"]["context_mib"][GPU.name] == [600, 635, 670]
    busy = _calibrated(steps=steps, used_before=MOST_USED + 1)
    assert "memory" not in busy.coefficients
    assert busy.warnings == ("Another process had memory on the GPU, so that its context was not measured.",)


def test_steps_that_were_disturbed_are_left_out() -> None:
    disturbed = ("mixed", "half", 8)
    steps = tuple(
        replace(_step(key), seconds=9.0, unsteady=3.0) if key == disturbed else _step(key) for key in TRACES
    )
    found = _calibrated(steps=steps)
    assert {
        comparison.step.key: comparison.unused for comparison in found.comparisons if comparison.unused
    } == {disturbed: "its times differ too much"}
    assert _error(TRACES["products", "half", 8], KNOWN.merged(found.coefficients)) < 0.12


def test_steps_that_wait_for_launches_are_left_out() -> None:
    key = ("lookups", "half", 8)
    traces = {**TRACES, key: replace(TRACES[key], host_operators=1_000_000)}
    found = calibrate(_measurements(), GPU, traces, KNOWN)
    assert [comparison.unused for comparison in found.comparisons if comparison.step.key == key] == [
        "it waits for launches of kernels"
    ]


def test_too_little_is_no_calibration() -> None:
    with pytest.raises(NotMeasured, match="Fewer than two models"):
        _calibrated(steps=tuple(_step(key) for key in TRACES if key[0] == "mixed"))
    with pytest.raises(NotMeasured, match="mixed, half: its times differ too much"):
        _calibrated(steps=tuple(replace(_step(key), unsteady=2.0) for key in TRACES))


def test_what_was_skipped_is_said() -> None:
    found = _calibrated(skipped=("lstm, half: no time was left (--budget)",))
    assert found.warnings == ("Not measured: lstm, half: no time was left (--budget).",)
