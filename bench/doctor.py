"""Duration of `gpuproof doctor --quick`, compared with the start of Python itself.

    python bench/doctor.py [--runs 15] [--python PY]

Aim: under 0.40 s without a framework. With --python naming an interpreter that has one, the time grows by what that
interpreter takes to start: no framework is imported.
"""

import argparse
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Mapping, Sequence
from pathlib import Path

AIM_S = 0.40


def main() -> int:
    """Prints the figures; returns 1 where the aim is missed."""
    parser = argparse.ArgumentParser(description="How long `gpuproof doctor --quick` takes.")
    parser.add_argument("--runs", type=int, default=15, help="of each command; the median counts")
    parser.add_argument("--python", help="an interpreter with a framework (default: this one)")
    options = parser.parse_args()
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, load {os.getloadavg()[0]:.1f}"
    )
    gpuproof = [str(Path(sys.executable).with_name("gpuproof")), "doctor", "--quick"]
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "GPUPROOF_CACHE_DIR": folder, "AWS_EC2_METADATA_DISABLED": "true"}
        bare = Path(folder) / "bare"
        venv.create(bare, symlinks=True)
        start = _median_seconds([sys.executable, "-c", "pass"], options.runs, environment)
        quick = _median_seconds([*gpuproof, "--python", str(bare)], options.runs, environment)
        packed = [*gpuproof, "--python", options.python or sys.executable]
        with_framework = _median_seconds(packed, options.runs, environment)
    print(f"  {start * 1e3:7.0f} ms  python -c pass")
    print(f"  {quick * 1e3:7.0f} ms  gpuproof doctor --quick, interpreter without a framework")
    print(f"  {with_framework * 1e3:7.0f} ms  gpuproof doctor --quick --python {packed[-1]}")
    print(f"quick: {quick:.3f} s, {quick / start:.0f} times python -c pass (aim: under {AIM_S:.2f} s)")
    return 0 if quick < AIM_S else 1


def _median_seconds(command: Sequence[str], runs: int, environment: Mapping[str, str]) -> float:
    def once() -> float:
        started = time.perf_counter()
        # The exit code depends on the findings, or on the missing GPU.
        subprocess.run(command, capture_output=True, env=environment, check=False)
        return time.perf_counter() - started

    return statistics.median(once() for _ in range(runs))


if __name__ == "__main__":
    sys.exit(main())
