"""Coefficients of one GPU from its measurements and the traces of the same models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from statistics import median
from typing import Any

from gpuproof.catalogue.model import Gpu
from gpuproof.planning.calibration.measurements import Key, MeasuredStep, Measurements
from gpuproof.planning.calibration.regression import KINDS, Row, fit_slowdowns, plain
from gpuproof.planning.coefficients import MIB, Coefficients, Rates
from gpuproof.planning.memory import estimate_memory
from gpuproof.planning.time import estimate_step, launch_seconds
from gpuproof.planning.time.hardware import half_peak, peak_rate
from gpuproof.planning.time.roofline import LAYOUT, MATRIX_KINDS, tile_efficiency
from gpuproof.trace.document import CONV, DEPTHWISE_CONV, GROUPED_CONV, Trace

_SHARES = (0.02, 1.2)
"""Of peak and bandwidth; what is outside was disturbed."""
_UNSTEADY = 1.5
"""Steps whose times differ more are left out."""
_BY_LAUNCHES = 0.7
"""Share of a step that launching its kernels may take on the host; beyond, the step says nothing about the GPU."""
_RIDGE = 0.01
"""Weight of the known slowdowns, in steps: some classes are in one model alone, and its step must count."""
_LARGE = 0.5
"""Of the largest product's size: smaller ones do not fill the GPU."""
MOST_USED = 1 << 30
"""Bytes in use before the measurement, from which on another process must have them."""


class NotMeasured(ValueError):
    """The measurements do not suffice for coefficients; the message is a sentence."""


@dataclass(frozen=True)
class Comparison:
    """A measured step, and what plans say about it.

    Args:
        step: as measured.
        before: seconds by the coefficients that were known.
        after: seconds by those fitted to the other models; None if there are none.
        memory: required bytes by the coefficients that were known.
        unused: why it was not used for the fit; empty if it was.
    """

    step: MeasuredStep
    before: float
    after: float | None
    memory: float
    unused: str = ""


@dataclass(frozen=True)
class Calibration:
    """What was learnt about a GPU.

    Args:
        gpu: of the catalogue, or `CPU`.
        coefficients: a document for `Coefficients.merged`.
        comparisons: of all measured steps.
        warnings: about the measurement.
    """

    gpu: str
    coefficients: Mapping[str, Any]
    comparisons: tuple[Comparison, ...]
    warnings: tuple[str, ...]


def calibrate(
    measured: Measurements, gpu: Gpu, traces: Mapping[Key, Trace], known: Coefficients
) -> Calibration:
    """Fit coefficients, and compare all measured steps with what they and the known ones say.

    Args:
        measured: on this GPU.
        gpu: of the catalogue.
        traces: of the steps.
        known: coefficients without this calibration.

    Raises:
        NotMeasured: too little was measured.
    """
    steps = [step for step in measured.steps if step.key in traces]
    is_trial = measured.gpu is None
    unused = {step.key: "" if is_trial else _why_unused(step, traces[step.key], known) for step in steps}
    used = [step for step in steps if not unused[step.key]]
    if len({step.model for step in used}) < 2:
        reasons = "; ".join(f"{step.model}, {step.precision}: {unused[step.key]}" for step in steps)
        raise NotMeasured(f"Fewer than two models have usable times. {reasons}".strip())
    fitted = _document(measured, gpu, traces, known, used)
    comparisons = [
        Comparison(
            step,
            _seconds(traces[step.key], gpu, known),
            _held_out(measured, gpu, traces, known, used, step),
            estimate_memory(traces[step.key], gpu, coefficients=known).required.value,
            unused[step.key],
        )
        for step in steps
    ]
    return Calibration(gpu.name, fitted, tuple(comparisons), tuple(_warnings(measured)))


def _why_unused(step: MeasuredStep, trace: Trace, known: Coefficients) -> str:
    if step.unsteady > _UNSTEADY:
        return "its times differ too much"
    # The least that launches take, because hosts differ.
    if launch_seconds(trace, known) * known.time["launch_spread"][0] > _BY_LAUNCHES * step.seconds:
        return "it waits for launches of kernels"
    return ""


def _warnings(measured: Measurements) -> list[str]:
    found: list[str] = []
    if measured.used_before > MOST_USED:
        found.append("Another process had memory on the GPU, so that its context was not measured.")
    return found + [f"Not measured: {name}." for name in measured.skipped]


def _held_out(
    measured: Measurements,
    gpu: Gpu,
    traces: Mapping[Key, Trace],
    known: Coefficients,
    used: Sequence[MeasuredStep],
    step: MeasuredStep,
) -> float | None:
    """Seconds by coefficients that were fitted without this model."""
    others = [other for other in used if other.model != step.model]
    if not others:
        return None
    fitted = _document(measured, gpu, traces, known, others)
    return _seconds(traces[step.key], gpu, known.merged(fitted))


def _seconds(trace: Trace, gpu: Gpu, known: Coefficients) -> float:
    return estimate_step(trace, gpu, coefficients=known).step.value


def _document(
    measured: Measurements,
    gpu: Gpu,
    traces: Mapping[Key, Trace],
    known: Coefficients,
    used: Sequence[MeasuredStep],
) -> dict[str, Any]:
    """Rates by precision: shares from products and the elementwise operator, slowdowns from steps."""
    old = {precision: known.rates(gpu.name, precision) for precision in ("float32", "tf32", "half")}
    bandwidth = _share(measured.bandwidth / (gpu.bandwidth * 1e9))
    compute = {
        "float32": _compute_share(measured, gpu, "float32", old["float32"].tile_s) or old["float32"].compute,
        "half": _compute_share(measured, gpu, "half", old["half"].tile_s) or old["half"].compute,
        "tf32": old["tf32"].compute,
    }
    shares = {precision: (share, bandwidth) for precision, share in compute.items()}
    # What is not fitted stays as it is known.
    kept = {
        precision: {"tile_s": rates.tile_s, "slowdown": {LAYOUT: rates.slowdown.get(LAYOUT, 1.0)}}
        for precision, rates in old.items()
    }
    unit = plain(known, shares).merged({"time": {"gpus": {gpu.name: kept}}})
    fitted = {
        run: fit_slowdowns(
            [_row(step, traces[step.key], gpu, unit, known) for step in used if step.precision == run],
            _prior(old[run], *shares[run]),
            _RIDGE,
            robust=False,
        )
        for run in ("float32", "half")
    }
    # Convolutions of a run in FP32 are computed in TF32 where the GPU has it.
    convolutions = {kind: fitted["float32"][kind] for kind in (CONV, GROUPED_CONV, DEPTHWISE_CONV)}
    slowdowns = {**fitted, "tf32": {**_prior(old["tf32"], *shares["tf32"]), **convolutions}}
    day = datetime.fromtimestamp(measured.time, UTC).date()
    entry = {
        precision: {
            "compute": round(shares[precision][0], 4),
            "bandwidth": round(shares[precision][1], 4),
            "slowdown": {kind: round(value, 3) for kind, value in slowdowns[precision].items()},
            "tier": "calibrated",
            "source": f"gpuproof calibrate, {day}, PyTorch {measured.torch}",
        }
        for precision in ("float32", "half", *(("tf32",) if gpu.tf32_tflops else ()))
    }
    found: dict[str, Any] = {"time": {"gpus": {gpu.name: entry}}}
    if context := _context(measured):
        found["memory"] = {"context_mib": {gpu.name: context}}
    return found


def _row(step: MeasuredStep, trace: Trace, gpu: Gpu, unit: Coefficients, known: Coefficients) -> Row:
    starts = sum(operator.kernels * operator.calls for operator in trace.operators) * known.time["kernel_s"]
    return Row(step.seconds, estimate_step(trace, gpu, coefficients=unit).by_class, starts)


def _prior(old: Rates, compute: float, bandwidth: float) -> dict[str, float]:
    """The known slowdowns, relative to other shares of the peak and the bandwidth."""
    return {
        kind: old.slowdown.get(kind, 1.0)
        * (compute / old.compute if kind in MATRIX_KINDS else bandwidth / old.bandwidth)
        for kind in KINDS
    }


def _compute_share(measured: Measurements, gpu: Gpu, precision: str, tile_s: float) -> float | None:
    """Share of the peak that large products reach, as the roofline counts it; None if they were not measured."""
    own = [(size, seconds) for name, size, seconds in measured.products if name == precision]
    if not own or not (half_peak(gpu) if precision == "half" else gpu.fp32_tflops):
        return None
    peak = peak_rate(gpu, precision)
    largest = max(size for size, _ in own)
    return _share(
        median(
            2.0 * size**3 / (peak * tile_efficiency((1, size, size, size), gpu, peak, tile_s)) / seconds
            for size, seconds in own
            if size >= _LARGE * largest
        )
    )


def _share(value: float) -> float:
    low, high = _SHARES
    return min(high, max(low, value))


def _context(measured: Measurements) -> list[int] | None:
    """Low, value and high of what the GPU's memory has besides PyTorch's segments, in MiB."""
    sizes = sorted(step.context for step in measured.steps if step.context is not None)
    if not sizes or measured.used_before > MOST_USED:
        return None
    return [round(size / MIB) for size in (sizes[0], median(sizes), sizes[-1])]
