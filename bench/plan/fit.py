"""Fits the coefficients of `gpuproof plan`: `python bench/plan/fit.py MEASUREMENTS TRACES` writes `coefficients.json`.

Of each GPU and precision: the shares of the peak and of the bandwidth from NeuSight's operators (FP32), and a slowdown of each class of
operators by ridge regression of measured steps on the roofline, with non-negative coefficients and a prior (what GPUs have in
common). Residuals are relative, and large ones count less, because tables have rows that something else slowed down.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[2] / "src"), str(Path(__file__).parents[2])]

from bench.plan import tables  # noqa: E402
from bench.plan.launches import fit_launches, measured_launches  # noqa: E402
from bench.plan.measured_steps import MeasuredStep, measured_steps  # noqa: E402

from gpuproof.catalogue import Catalogue, Gpu  # noqa: E402
from gpuproof.planning.calibration import regression  # noqa: E402
from gpuproof.planning.calibration.regression import KINDS, fit_slowdowns, plain, predict  # noqa: E402
from gpuproof.planning.coefficients import Coefficients, builtin_coefficients  # noqa: E402
from gpuproof.planning.time import estimate_step  # noqa: E402
from gpuproof.planning.time.hardware import peak_rate  # noqa: E402
from gpuproof.planning.time.roofline import MATRIX_KINDS, tile_efficiency  # noqa: E402

OUTPUT = Path(__file__).parents[2] / "src/gpuproof/planning/data/coefficients.json"
_COMPUTE, _BANDWIDTH = 0.75, 0.85
"""Shares where no operators were measured; slowdowns are relative to them."""
TYPICAL = 1.2
"""Slowdown of a class of which nothing was measured."""
_TYPICAL_FP32 = 0.85
"""Share of the FP32 peak that GPUs without a tight limit of power reach."""
_ENOUGH_MODELS = 5
"""Of which steps were measured, to say that a GPU is calibrated by them alone."""
NEUSIGHT = {
    "Tesla T4": ("T4", 8.1, 320),
    "NVIDIA L4": ("L4", 30.3, 300),
    "Tesla V100-PCIE-32GB": ("V100-32GB", 14.0, 900),
    "NVIDIA A100-PCIE-40GB": ("A100-40GB", 19.5, 1555),
    "NVIDIA A100 80GB PCIe": ("A100-80GB", 19.5, 1935),
    "NVIDIA H100 80GB HBM3": ("H100", 67.0, 3350),
}
_OPTIMIZER = 1.115
"""Of elementwise operators, those of optimizers take longer by this factor on an H200 (bench/results/gpu_session-H200.json)."""
_TENSORS = {"add": 3, "mul": 3, "div": 3}
_LARGE = 20 << 20
SAME = {"V100-16GB": "V100-32GB", "T4G": "T4", "H200": "H100"}
"""GPUs with the same processor: only memory differs, or (T4G) the host."""


@dataclass(frozen=True)
class Row(regression.Row):
    """A row of a table.

    Args:
        step: what was measured.
    """

    step: MeasuredStep


def plain_coefficients() -> Coefficients:
    """With all slowdowns 1 and no time to start kernels."""
    shares: dict[str, tuple[float, float]] = dict.fromkeys(
        ("float32", "tf32", "half"), (_COMPUTE, _BANDWIDTH)
    )
    return plain(builtin_coefficients(), shares)


def rows_of(steps: Sequence[MeasuredStep], base: Coefficients | None = None) -> list[Row]:
    """What the roofline says of each.

    Args:
        steps: measured.
        base: with slowdowns of 1; those of `plain_coefficients` if None.
    """
    unit = base or plain_coefficients()
    kernel_s = builtin_coefficients().time["kernel_s"]
    found: list[Row] = []
    for step in steps:
        estimate = estimate_step(
            step.trace,
            step.gpu,
            gpus=step.gpus,
            hosts=step.hosts,
            network_gbps=step.network_gbps,
            coefficients=unit,
        )
        starts = sum(operator.kernels * operator.calls for operator in step.trace.operators) * kernel_s
        found.append(Row(step.seconds, estimate.by_class, starts + estimate.communication_s, step))
    return found


def fit_default(rows: Sequence[Row]) -> dict[str, float]:
    """Slowdowns that GPUs have in common: each group of measurements counts the same, however many rows it has."""
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        groups[row.step.gpu.name, row.step.table].append(row)
    fitted = [(group, fit_slowdowns(group, dict.fromkeys(KINDS, TYPICAL))) for group in groups.values()]
    result: dict[str, float] = {}
    for kind in KINDS:
        pairs = [
            (found[kind], sum(row.by_class.get(kind, 0.0) / row.step.seconds for row in group) / len(group))
            for group, found in fitted
        ]
        total = sum(weight for _, weight in pairs)
        result[kind] = sum(value * weight for value, weight in pairs) / total if total > 0.01 else TYPICAL
    return result


def neusight_rates(folder: Path) -> dict[str, dict[str, Any]]:
    """FP32 rates of GPUs: the share of the bandwidth, of the peak, and slowdowns of bmm, norm and softmax."""
    gpus = Catalogue.load().tables.gpus
    by_gpu: dict[str, list[tables.OperatorTime]] = defaultdict(list)
    for measured in tables.neusight(folder):
        by_gpu[measured.device].append(measured)
    found: dict[str, dict[str, Any]] = {}
    for device, (name, peak, bandwidth) in NEUSIGHT.items():
        gpu = gpus[name]._replace(fp32_tflops=peak, bandwidth=float(bandwidth))
        found[name] = _neusight_gpu(by_gpu[device], gpu)
    return found


def _neusight_gpu(rows: Sequence[tables.OperatorTime], gpu: Gpu) -> dict[str, Any]:
    shares = {name: _bandwidth_shares(rows, gpu, name) for name in ("elementwise", "norm", "softmax")}
    bandwidth = median(shares["elementwise"]) if shares["elementwise"] else _BANDWIDTH
    slowdown = {
        name: round(bandwidth / median(shares[name]), 3) for name in ("norm", "softmax") if shares[name]
    }
    if shares["elementwise"]:
        slowdown |= {"elementwise": 1.0, "optimizer": _OPTIMIZER}
    compute = _compute_share(rows, gpu, "linear", bandwidth, 1.0)
    slowdown["gemm"] = 1.0
    slowdown["bmm"] = round(compute / _compute_share(rows, gpu, "bmm", bandwidth, compute), 3)
    rates = {"compute": round(compute, 3), "bandwidth": round(bandwidth, 3), "slowdown": slowdown}
    return {**rates, "tier": "calibrated", "source": "sitar-lab/NeuSight, operators in FP32"}


def _bandwidth_shares(rows: Sequence[tables.OperatorTime], gpu: Gpu, kind: str) -> list[float]:
    names = {"norm": ("ln",), "softmax": ("softmax",)}.get(kind)
    found: list[float] = []
    for row in rows:
        matches = row.name in names if names else row.name not in ("ln", "softmax", "linear", "bmm")
        if matches and 4 * row.shape[0] * row.shape[1] > _LARGE:
            size = 4 * row.shape[0] * row.shape[1] * _TENSORS.get(row.name, 2)
            found.append(size / row.seconds / (gpu.bandwidth * 1e9))
    return found


def _compute_share(
    rows: Sequence[tables.OperatorTime], gpu: Gpu, name: str, bandwidth: float, expected: float
) -> float:
    """The share that makes the median error zero: of each product that is not bound by bandwidth, the one it shows."""
    shares: list[float] = []
    for row in rows:
        if row.name == name:
            b, m, n, k = row.shape
            peak = peak_rate(gpu, "float32")
            needed = 2.0 * b * m * n * k / peak / tile_efficiency(row.shape, gpu, peak)
            traffic = 4 * b * (m * k + k * n + m * n) / (gpu.bandwidth * 1e9 * bandwidth)
            if needed / expected > traffic:
                shares.append(needed / row.seconds)
    return median(shares)


def fit_all(measurements: Path, traces: Path) -> dict[str, Any]:
    """All coefficients of time by GPU and precision, and the typical ones."""
    steps = measured_steps(measurements, traces)
    exposed = fit_exposed([step for step in steps if step.trace.strategy == "fsdp"])
    rows = rows_of(steps, plain_coefficients().merged({"time": {"fsdp_exposed": exposed}}))
    half = [row for row in rows if row.step.precision == "half"]
    full = [row for row in rows if row.step.precision == "float32"]
    default_half = fit_default(half)
    default_full = {
        **default_half,
        **_only(fit_default(full), ("conv", "grouped-conv", "depthwise-conv", "norm")),
    }
    gpus: dict[str, dict[str, Any]] = defaultdict(dict)
    with_steps = {row.step.gpu.name.partition("-")[0] for row in full}
    for name, rates in neusight_rates(measurements).items():
        gpus[name]["float32"] = rates
        if name.partition("-")[0] in with_steps:
            # Whole steps take longer than their operators: on an A100, those of image models 12 to 37 % longer with what is typical.
            for kind in ("elementwise", "optimizer"):
                rates["slowdown"].pop(kind, None)
    for name in sorted({row.step.gpu.name for row in rows}):
        for precision, prior, kept in (("half", default_half, half), ("float32", default_full, full)):
            own = [row for row in kept if row.step.gpu.name == name]
            if len({row.step.model for row in own}) >= _ENOUGH_MODELS:
                key = "tf32" if precision == "float32" and own[0].step.gpu.tf32_tflops else precision
                if key != "float32":
                    gpus[name][key] = _entry(own, prior)
    related = _with_relatives(gpus, default_half)
    for entry in related.values():
        _add_other_precisions(entry, {"half": default_half, "tf32": default_full, "float32": default_full})
    for name, precision, kept, prior in (
        *((name, "float32", full, default_full) for name in ("T4", "V100-16GB", "V100-32GB")),
        ("T4", "half", half, default_half),
    ):
        chip = SAME.get(name, name)
        own = [row.step for row in kept if SAME.get(row.step.gpu.name, row.step.gpu.name) == chip]
        related[name][precision] = _with_steps(related[name][precision], precision, own, prior)
    default = {
        "float32": _rates(default_full),
        "tf32": _rates(default_full),
        "half": _rates(default_half),
    }
    launches = fit_launches(measured_launches(measurements, traces))
    return {"fsdp_exposed": exposed, **launches, "default": default, "gpus": related}


def fit_exposed(steps: Sequence[MeasuredStep]) -> float:
    """Share of FSDP's collectives that lengthens a step: the one with the smallest errors of steps by the GPU's own coefficients."""

    def error(share: float) -> float:
        rows = rows_of(steps, plain_coefficients().merged({"time": {"fsdp_exposed": share}}))
        found: list[float] = []
        for name in {row.step.gpu.name for row in rows}:
            own = [row for row in rows if row.step.gpu.name == name]
            slowdowns = fit_slowdowns(own, dict.fromkeys(KINDS, TYPICAL))
            found += [abs(predict(row, slowdowns) / row.seconds - 1) for row in own]
        return sum(found)

    return min((step / 10 for step in range(11)), key=error)


def _with_steps(
    entry: Mapping[str, Any], precision: str, steps: Sequence[MeasuredStep], default: Mapping[str, float]
) -> dict[str, Any]:
    """Rates from operators, with slowdowns that whole steps show: convolutions are none of the operators."""
    shares = {"compute": entry["compute"], "bandwidth": entry["bandwidth"]}
    base = plain_coefficients().merged({"time": {"default": {precision: shares}}})
    slowdowns = fit_slowdowns(rows_of(steps, base), {**default, **entry["slowdown"]})
    rounded = {kind: round(value, 3) for kind, value in slowdowns.items()}
    return {
        **entry,
        "slowdown": rounded,
        "source": f"{entry['source']}; {len(steps)} steps of NVIDIA's ConvNets",
    }


def _add_other_precisions(entry: dict[str, Any], slowdowns: Mapping[str, Mapping[str, float]]) -> None:
    """Of a GPU that was measured in one precision: what is known of it holds for the others as well.

    A limit of its power that lowers its FP32 peak lowers the others too, but not as much.
    """
    full, half = entry.get("float32"), entry.get("half")
    for precision, slowdown in slowdowns.items():
        if precision in entry:
            continue
        if full:
            share = _COMPUTE * min(1.0, (full["compute"] / _TYPICAL_FP32) ** 0.5)
            rates = {**_rates(slowdown), "compute": round(share, 3), "bandwidth": full["bandwidth"]}
            entry[precision] = {**rates, "tier": "one-anchor", "source": f"from FP32: {full['source']}"}
        elif half:
            memory_bound = {kind: half["slowdown"][kind] for kind in KINDS if kind not in MATRIX_KINDS}
            rates = _rates({**slowdown, **memory_bound})
            entry[precision] = {
                **rates,
                "tier": "one-anchor",
                "source": f"from half precision: {half['source']}",
            }


def _only(values: Mapping[str, float], names: Sequence[str]) -> dict[str, float]:
    return {name: values[name] for name in names}


def _rates(slowdown: Mapping[str, float]) -> dict[str, Any]:
    rounded = {kind: round(value, 3) for kind, value in slowdown.items()}
    return {
        "compute": _COMPUTE,
        "bandwidth": _BANDWIDTH,
        "slowdown": rounded,
        "source": "typical of measured GPUs",
    }


def _entry(rows: Sequence[Row], prior: Mapping[str, float]) -> dict[str, Any]:
    tables_ = ", ".join(sorted({row.step.table for row in rows}))
    return {
        **_rates(fit_slowdowns(rows, prior)),
        "tier": "calibrated",
        "source": f"{tables_}: {len(rows)} steps",
    }


def _with_relatives(gpus: Mapping[str, Mapping[str, Any]], default: Mapping[str, float]) -> dict[str, Any]:
    """Also GPUs with the same processor or architecture, as one-anchor.

    An RTX PRO 6000 Max-Q has half of the power of the server's: products are as fast as is typical of GPUs.
    """
    result: dict[str, Any] = {name: dict(entry) for name, entry in gpus.items()}
    relatives = {
        **SAME,
        "V100-32GB": "V100-16GB",
        "A100-40GB": "A100-80GB",
        "A10G": "RTX-3090",
        "RTX-PRO-6000": "RTX-PRO-6000-Max-Q",
    }
    relatives |= {"RTX-PRO-4500": "RTX-PRO-6000-Max-Q"}
    for name, relative in relatives.items():
        for precision, entry in gpus.get(relative, {}).items():
            copied = {**entry, "tier": "one-anchor", "source": f"measured on {relative}: {entry['source']}"}
            if name == "RTX-PRO-6000":
                copied["slowdown"] = {
                    kind: round(default[kind], 3) if kind in MATRIX_KINDS else value
                    for kind, value in entry["slowdown"].items()
                }
            result.setdefault(name, {}).setdefault(precision, copied)
    return {name: result[name] for name in sorted(result)}


def main() -> None:
    """Replace the coefficients of time; those of memory and the spreads are those of `plan_accuracy`."""
    document = json.loads(OUTPUT.read_text())
    document["time"] |= fit_all(Path(sys.argv[1]), Path(sys.argv[2]))
    OUTPUT.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
