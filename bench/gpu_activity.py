"""Whether verdicts are right about what a real GPU does: known work and known waste under `gpuproof run`.

    python bench/gpu_activity.py                                    # on a machine with a GPU and PyTorch
    python bench/gpu_activity.py --prepare .gpu/wheels --for 3.12   # here: what a machine without a network needs
    python3 bench/gpu_activity.py --wheels .gpu/wheels              # there, from the same folder of the copied checkout

Runs the programs of `bench/activity`, compares each verdict with what it may say, and then, with `--tests`, the tests that need a GPU; all
of it within `--seconds`. The rows go to `bench/results/gpu_activity-GPU.json`. Without a GPU it says so and returns 0, or 3 with
`--require-gpu`. Returns 1 where a verdict was wrong, or where nothing could be compared.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench.activity.cases import Row
    from bench.activity.session import Machine

PROJECT = Path(__file__).resolve().parents[1]
PROGRAMS = PROJECT / "bench" / "activity"
RESULTS = PROJECT / "bench" / "results"
VERSION = 1
SECONDS = 600.0
_NO_GPU = 3
_SITE = "GPUPROOF_ACTIVITY_SITE"
"""Names the folder with the installed wheels, in the process that has them on its path."""


def main() -> int:
    """Prepare, or run the cases and write the rows."""
    options = _arguments()
    sys.path[:0] = [str(PROJECT), str(PROJECT / "src")]
    if options.prepare:
        from bench.activity.wheels import PackageNotFoundError, download

        try:
            return download(options.prepare, options.target)
        except PackageNotFoundError as missing:
            print(f"gpu_activity: {missing}; prepare with the checkout's .venv/bin/python", file=sys.stderr)
            return 2
    if options.wheels and _SITE not in os.environ:
        return _again_with(options.wheels)
    return _measure(options)


def _measure(options: argparse.Namespace) -> int:
    from bench.activity.cases import CASES, compare_trainings
    from bench.activity.session import Session, describe

    from gpuproof.util.humanize import format_duration

    session = Session(options.python, options.seconds, PROGRAMS, options.env)
    machine = describe(options.python)
    if machine is None:
        print("Nothing was measured: NVML finds no GPU here.")
        return _NO_GPU if options.require_gpu else 0
    print(f"{machine.name}, driver {machine.driver}, PyTorch {machine.torch or 'without CUDA'}", flush=True)
    cases = [case for case in CASES if not options.only or case.name in options.only.split(",")]
    path = options.results / f"gpu_activity-{machine.slug}.json"
    rows: list[Row] = []
    for case in cases:
        rows.append(session.run(case, machine, options.length))
        print(describe_row(rows[-1]), flush=True)
        _write(path, machine, rows)
    if order := compare_trainings(rows):
        rows.append(order)
        print(describe_row(order), flush=True)
    if options.tests:
        rows.append(session.run_tests(PROJECT))
        print(describe_row(rows[-1]), flush=True)
    _write(path, machine, rows)
    compared = [row for row in rows if row.ok is not None]
    wrong = [row for row in compared if not row.ok]
    took = format_duration(session.elapsed_s)
    print(f"{len(compared)} of {len(rows)} compared, {len(wrong)} wrong, in {took}: {path}")
    return 1 if wrong or not compared else 0


def describe_row(row: Row) -> str:
    """A line for a person."""
    state = {True: "ok", False: "wrong", None: "not run"}[row.ok]
    said = " ".join(filter(None, (row.outcome, row.kind, row.certainty)))
    return f"  {state:8} {row.name:26} {said}{': ' + row.problem if row.problem else ''}"


def _write(path: Path, machine: Machine, rows: Sequence[Row]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {
        "version": VERSION,
        **asdict(machine),
        "day": datetime.now(UTC).date().isoformat(),
        "rows": [asdict(row) for row in rows],
    }
    path.write_text(json.dumps(document, indent=1) + "\n")


def _again_with(wheels: Path) -> int:
    """Install the wheels for this interpreter into a folder that is removed again, and run there; needs no network."""
    found = sorted(map(str, wheels.glob("*.whl")))
    if not found:
        print(f"gpu_activity: there are no wheels in {wheels}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as site:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-compile"]
        installed = subprocess.run([*pip, "--target", site, *found], check=False).returncode
        if installed:
            return installed
        path = os.pathsep.join(filter(None, (str(PROJECT / "src"), site, os.environ.get("PYTHONPATH"))))
        environment = {**os.environ, "PYTHONPATH": path, _SITE: site}
        return subprocess.run([sys.executable, *sys.argv], env=environment, check=False).returncode


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Compare verdicts with what a real GPU does.")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="how long all of it may take")
    parser.add_argument("--only", default="", help="names of cases, separated by commas")
    parser.add_argument("--length", type=float, help="seconds for which each program keeps the GPU busy")
    parser.add_argument(
        "--python", type=Path, default=Path(sys.executable), help="the interpreter that has PyTorch"
    )
    parser.add_argument(
        "--env", action="append", default=[], metavar="NAME=VALUE", help="a variable of the programs"
    )
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--tests", action="store_true", help="run the tests that need a GPU, too")
    parser.add_argument("--require-gpu", action="store_true", help="return 3 without a GPU")
    parser.add_argument("--wheels", type=Path, help="folder of wheels to install first, without a network")
    parser.add_argument("--prepare", type=Path, help="download wheels into this folder, and do nothing else")
    parser.add_argument(
        "--for",
        dest="target",
        default=f"{sys.version_info[0]}.{sys.version_info[1]}",
        help="Python version of the machine with the GPU (default: this one)",
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
