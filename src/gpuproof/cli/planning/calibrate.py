"""Measure a GPU, so that the estimates of `gpuproof plan` for it are more accurate.

Trains six small models in two precisions for a few steps on this machine's GPU, which takes less than ten minutes, and stores
what follows for `gpuproof plan`. To calibrate a GPU of AWS from here:

  gpuproof calibrate --script measure_gpu.py
  gpuproof run measure_gpu.py --on ec2 --instance-type g5.xlarge
  gpuproof calibrate --import calibration.json

Exit codes: 0 stored; 1 the measurement failed, or says nothing about GPUs of AWS; 2 wrong usage; 3 no GPU here. Ctrl-C stores nothing.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuproof.cli.arguments import add_command, add_format_flag
from gpuproof.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from gpuproof.cli.arguments import Subparsers
    from gpuproof.planning.calibration.fitting import Calibration, Comparison
    from gpuproof.planning.calibration.measurements import Measurements

VERSION = 1
_HEADERS = ("MODEL", "PRECISION", "BATCH", "STEP", "BEFORE", "ERROR", "AFTER", "ERROR", "MEMORY", "PLANNED")
_RIGHT = tuple(range(2, len(_HEADERS)))


def add_parser(commands: Subparsers) -> None:
    """Add `gpuproof calibrate` to the command line."""
    parser = add_command(commands, "calibrate", "measure a GPU for more accurate plans", __doc__)
    parser.add_argument(
        "--import",
        dest="measurements",
        type=Path,
        metavar="FILE",
        help="use measurements of another machine, and measure nothing here",
    )
    parser.add_argument(
        "--script", type=Path, metavar="FILE", help="write the measuring script, which needs only PyTorch"
    )
    parser.add_argument("--output", type=Path, metavar="FILE", help="keep the measurements in this file")
    parser.add_argument(
        "--budget",
        default="10m",
        metavar="TIME",
        help="time after which no further model is started (default: 10m)",
    )
    parser.add_argument(
        "--device",
        choices=["cuda", "cpu"],
        default="cuda",
        help="cpu tries it out with toy sizes; no plan uses the result (default: cuda)",
    )
    parser.add_argument(
        "--python", metavar="PYTHON", help="interpreter that has PyTorch (default: as for `run`)"
    )
    add_format_flag(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Entry point of `gpuproof calibrate`."""
    from gpuproof.backends.interpreter import find_interpreter
    from gpuproof.planning.calibration import session
    from gpuproof.planning.calibration.measurements import read_measurements, script_text

    if arguments.script is not None:
        if arguments.measurements is not None or arguments.output is not None:
            raise UsageError(
                "--script measures nothing.", remedy="gpuproof calibrate --script measure_gpu.py"
            )
        session.write_script(arguments.script, script_text())
        return ExitCode.OK
    if arguments.measurements is not None and arguments.output is not None:
        raise UsageError("--import measures nothing to keep with --output.")
    budget = _seconds(arguments.budget)
    python = find_interpreter(arguments.python)
    if arguments.measurements is not None:
        return _use(read_measurements(arguments.measurements), python, arguments)
    small = arguments.device == "cpu"
    with tempfile.TemporaryDirectory(prefix="gpuproof-calibrate-") as folder:
        output = arguments.output or Path(folder) / "calibration.json"
        options = ("--device", arguments.device, "--budget", str(budget), *(["--small"] if small else []))
        with session.measuring_script() as script:
            session.measure(script, python, output.absolute(), *options)
        return _use(read_measurements(output), python, arguments)


def _use(measured: Measurements, python: str, arguments: argparse.Namespace) -> int:
    """Fit, store and show."""
    import json
    import sys

    from gpuproof.catalogue import Catalogue
    from gpuproof.planning.calibration.session import fit_measurements
    from gpuproof.planning.calibration.store import store_calibration
    from gpuproof.planning.coefficients import builtin_coefficients

    def progress(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    found = fit_measurements(measured, Catalogue.load(), builtin_coefficients(), python, progress)
    path = store_calibration(found, measured)
    if arguments.format == "json":
        print(json.dumps(_document(found, str(path)), indent=2))
    else:
        print(_text(found, str(path)))
    return ExitCode.OK


def _document(found: Calibration, path: str) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "version": VERSION,
        "gpu": found.gpu,
        "coefficients": found.coefficients,
        "steps": [
            {
                **asdict(comparison.step),
                "before": comparison.before,
                "after": comparison.after,
                "planned_memory": comparison.memory,
                "unused": comparison.unused,
            }
            for comparison in found.comparisons
        ],
        "warnings": list(found.warnings),
        "file": path,
    }


def _text(found: Calibration, path: str) -> str:
    from statistics import median

    from gpuproof.planning.calibration.session import CPU
    from gpuproof.terminal.table import render_table

    used = [comparison for comparison in found.comparisons if not comparison.unused]
    before = median(abs(comparison.before / comparison.step.seconds - 1) for comparison in used)
    after = median(
        abs((comparison.after or comparison.before) / comparison.step.seconds - 1) for comparison in used
    )
    return "\n".join(
        [
            f"{found.gpu}: {len(used)} steps of six models",
            "",
            render_table(_HEADERS, [_row(comparison) for comparison in found.comparisons], _RIGHT),
            "",
            *(
                f"not used: {comparison.step.model}, {comparison.step.precision}: {comparison.unused}"
                for comparison in found.comparisons
                if comparison.unused
            ),
            *(f"note: {warning}" for warning in found.warnings),
            f"Median error of a step: {before:.0%} before, {after:.0%} after, each model with what the others say.",
            f"No plan uses it, because it is not of a GPU: {path}"
            if found.gpu == CPU
            else f"`gpuproof plan` uses it from now on: {path}",
        ]
    )


def _row(one: Comparison) -> list[str]:
    step = one.step
    used = None if step.reserved is None or step.context is None else step.reserved + step.context
    after = "-" if one.after is None else _milliseconds(one.after)
    error = "-" if one.after is None else f"{one.after / step.seconds - 1:+.0%}"
    return [
        step.model,
        step.precision,
        f"{step.batch:,}",
        _milliseconds(step.seconds),
        _milliseconds(one.before),
        f"{one.before / step.seconds - 1:+.0%}",
        after,
        error,
        "-" if used is None else f"{used / (1 << 30):.1f} GiB",
        "-" if used is None else f"{one.memory / (1 << 30):.1f} GiB",
    ]


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms"


def _seconds(text: str) -> float:
    from gpuproof.units import Duration, UnitError

    try:
        return float(Duration.parse(text).seconds)
    except UnitError as error:
        raise UsageError(f"--budget: {error}.", remedy="--budget 10m") from error
