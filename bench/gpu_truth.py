"""How far `gpuproof plan` is from a real GPU, before and after `gpuproof calibrate`.

    python bench/gpu_truth.py
    python bench/gpu_truth.py --device cpu --quick     # the same code, with models of toy size

Measures step time and peak memory of 15 models at two batch sizes and in two precisions, calibrates the GPU with its own six
models, and compares the measured steps with what plans say. The rows go to `bench/results/gpu_truth-GPU.json` (`--device cpu`: only
where `--results` says). The user's own calibrations are neither read nor changed. Without a CUDA GPU it says so and returns 0, or 3
where `--device cuda` asked for one. Returns 1 where the measurement failed. It needs PyTorch.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[1] / "src"), str(Path(__file__).parents[1])]

from gpuproof.catalogue import Catalogue, Gpu  # noqa: E402
from gpuproof.errors import GPUproofError  # noqa: E402
from gpuproof.planning.calibration.measurements import Measurements, read_measurements  # noqa: E402
from gpuproof.planning.calibration.session import (  # noqa: E402
    fit_measurements,
    gpu_of,
    measure,
    measuring_script,
    trace_steps,
)
from gpuproof.planning.coefficients import Coefficients, builtin_coefficients  # noqa: E402
from gpuproof.planning.memory import estimate_memory  # noqa: E402
from gpuproof.planning.time import estimate_step  # noqa: E402
from gpuproof.terminal.table import render_table  # noqa: E402
from gpuproof.trace.document import Trace  # noqa: E402

VERSION = 1
RESULTS = Path(__file__).parent / "results"
MODELS = Path(__file__).parent / "plan" / "truth_models.py"
BATCHES = "2"
QUANTITIES = ("time", "memory")
_NO_GPU = 3
_HEADERS = ("MODEL", "PRECISION", "BATCH", "STEP", "BEFORE", "AFTER", "MEMORY", "BEFORE", "AFTER")


def main() -> int:
    """Measure, calibrate, compare, and write the rows."""
    options = _arguments()
    device = options.device or "cuda"
    if device == "cuda" and not _has_gpu():
        print("Nothing was measured: PyTorch finds no CUDA GPU here.")
        print("`python bench/gpu_truth.py --device cpu --quick` runs the same code on the CPU.")
        return _NO_GPU if options.device == "cuda" else 0
    try:
        with tempfile.TemporaryDirectory(prefix="gpu-truth-") as folder:
            document = _compare(Path(folder), device, options)
    except GPUproofError as error:
        print(error, file=sys.stderr)
        return 1
    print(report(document))
    target: Path | None = options.results or (RESULTS if device == "cuda" and not options.quick else None)
    if target is not None:
        target.mkdir(parents=True, exist_ok=True)
        path = target / f"gpu_truth-{re.sub(r'[^A-Za-z0-9-]', '_', document['gpu'])}.json"
        path.write_text(json.dumps(document, indent=1) + "\n")
        print(path)
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--device", choices=["cuda", "cpu"])
    parser.add_argument("--quick", action="store_true", help="models of toy size; on the CPU only")
    parser.add_argument(
        "--budget", type=float, default=1800, help="seconds for the 15 models (default: 1800)"
    )
    parser.add_argument("--only", default="", metavar="MODELS", help="names with commas, of the 15 models")
    parser.add_argument("--results", type=Path, help="folder for the rows")
    options = parser.parse_args()
    if (options.device == "cpu") != options.quick:
        parser.error("--device cpu and --quick go together: toy sizes say nothing about a GPU")
    return options


def _has_gpu() -> bool:
    try:
        import torch
    except ImportError:
        return False
    return torch.cuda.is_available()


def _compare(folder: Path, device: str, options: argparse.Namespace) -> dict[str, Any]:
    small, only = bool(options.quick), str(options.only)
    catalogue, known = Catalogue.load(), builtin_coefficients()
    common = ("--device", device, *(["--small"] if small else []))
    truth_file, own_file = folder / "truth.json", folder / "calibration.json"
    own = ("--batches", BATCHES, "--budget", str(options.budget), *(["--only", only] if only else []))
    measure(MODELS, sys.executable, truth_file, *common, *own)
    truth = read_measurements(truth_file)
    gpu = gpu_of(truth, catalogue)
    with measuring_script() as script:
        measure(script, sys.executable, own_file, *common)
    calibration = fit_measurements(
        read_measurements(own_file),
        catalogue,
        known,
        sys.executable,
        lambda text: print(text, file=sys.stderr),
    )
    traces = trace_steps(truth, MODELS, sys.executable, catalogue)
    rows = compare(truth, gpu, traces, known, known.merged(calibration.coefficients))
    return {
        "version": VERSION,
        "gpu": gpu.name,
        "torch": truth.torch,
        "cuda": truth.cuda,
        "day": datetime.fromtimestamp(truth.time, UTC).date().isoformat(),
        "toy_sizes": small,
        "skipped": list(truth.skipped),
        "warnings": list(calibration.warnings),
        "coefficients": calibration.coefficients,
        "errors": {name: errors_of(rows, name) for name in QUANTITIES},
        "rows": rows,
    }


def compare(
    truth: Measurements,
    gpu: Gpu,
    traces: dict[tuple[str, str, int], Trace],
    before: Coefficients,
    after: Coefficients,
) -> list[dict[str, Any]]:
    """A row of each measured step with what plans say of it; a batch that was halved to one measured already is left out.

    Args:
        truth: measured steps.
        gpu: of the catalogue.
        traces: of the steps.
        before: coefficients without the calibration.
        after: with it.
    """
    rows: list[dict[str, Any]] = []
    for step in {measured.key: measured for measured in truth.steps}.values():
        trace = traces[step.key]
        row: dict[str, Any] = {"model": step.model, "precision": step.precision, "batch": step.batch}
        row["unsteady"] = step.unsteady
        row["time"] = {
            "measured": step.seconds,
            "before": estimate_step(trace, gpu, coefficients=before).step.value,
            "after": estimate_step(trace, gpu, coefficients=after).step.value,
        }
        if step.reserved is not None and step.context is not None:
            row["memory"] = {
                "measured": step.reserved + step.context,
                "before": estimate_memory(trace, gpu, coefficients=before).required.value,
                "after": estimate_memory(trace, gpu, coefficients=after).required.value,
            }
        rows.append(row)
    return rows


def errors_of(rows: Sequence[dict[str, Any]], quantity: str) -> dict[str, dict[str, float]]:
    """Median and 90th percentile of the error, and the median with its sign (bias), before and after; empty without rows."""
    own = [row[quantity] for row in rows if quantity in row]
    if not own:
        return {}
    found: dict[str, dict[str, float]] = {}
    for when in ("before", "after"):
        signed = [row[when] / row["measured"] - 1 for row in own]
        sizes = sorted(abs(error) for error in signed)
        p90 = sizes[math.ceil(0.9 * len(sizes)) - 1]
        found[when] = {"median": median(sizes), "p90": p90, "bias": median(signed), "rows": len(sizes)}
    return found


def report(document: dict[str, Any]) -> str:
    """The rows as a table, and the errors below."""
    lines = [f"{document['gpu']}, PyTorch {document['torch']}, {document['day']}", ""]
    lines += [
        render_table(_HEADERS, [_row(row) for row in document["rows"]], tuple(range(2, len(_HEADERS)))),
        "",
    ]
    lines += [f"not measured: {name}" for name in document["skipped"]]
    lines += [f"note: {warning}" for warning in document["warnings"]]
    for quantity in QUANTITIES:
        if not document["errors"][quantity]:
            lines.append(f"{quantity}: not measured")
        for when, error in document["errors"][quantity].items():
            lines.append(
                f"{quantity} {when} calibrate: median {error['median']:.1%}, p90 {error['p90']:.1%}, "
                f"bias {error['bias']:+.1%} ({error['rows']} rows)"
            )
    if document["toy_sizes"]:
        lines.append("Models of toy size on the CPU: these figures say nothing about a GPU.")
    return "\n".join(lines)


def _row(row: dict[str, Any]) -> list[str]:
    cells = [row["model"], row["precision"], f"{row['batch']:,}"]
    for quantity, scale, unit in (("time", 1e3, "ms"), ("memory", 1 / (1 << 30), "GiB")):
        if one := row.get(quantity):
            errors = [f"{one[when] / one['measured'] - 1:+.0%}" for when in ("before", "after")]
            cells += [f"{one['measured'] * scale:.3g} {unit}", *errors]
        else:
            cells += ["-", "-", "-"]
    return cells


if __name__ == "__main__":
    sys.exit(main())
