"""Runs cases on the GPU of this machine, as long as there is time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bench.activity.cases import Case, Row, compare, length_s, limit_s

from gpuproof.gpu.nvml import Nvml, NvmlUnavailable

GPU_TESTS = (
    "tests/gpu/test_real_gpu.py",
    "tests/runtime/steps/test_cuda_clock.py",
    "tests/doctor/test_real_gpu.py",
    "tests/end_to_end/test_examples.py",
    "tests/bench/test_serve_gpu.py",
    "tests/doors/test_real_gpu.py",
)
"""The files with tests that need a GPU."""
_ENDING_S = 5.0
_TORCH = "import torch; print(torch.__version__ if torch.cuda.is_available() else '')"


@dataclass(frozen=True)
class Machine:
    """The GPU that is measured.

    Args:
        slug: its name for a file.
        counters: whether NVML reads its performance counters.
        torch: version of the PyTorch with CUDA, if there is one.
    """

    name: str
    slug: str
    driver: str | None
    counters: bool
    torch: str | None


def describe(python: Path) -> Machine | None:
    """The first GPU of this machine; `None` without one.

    Args:
        python: the interpreter that may have PyTorch.
    """
    try:
        with Nvml.open() as nvml:
            gpus = nvml.gpus()
            if not gpus:
                return None
            name = gpus[0].name or "GPU"
            counters, driver = nvml.counts_performance(0), nvml.driver_version()
    except NvmlUnavailable:
        return None
    found = subprocess.run([python, "-c", _TORCH], capture_output=True, text=True, check=False)
    torch = found.stdout.strip() if found.returncode == 0 else ""
    return Machine(name, slug(name), driver, counters, torch or None)


def slug(name: str) -> str:
    """`NVIDIA H100 80GB HBM3` → `H100`."""
    words = [word for word in name.replace("-", " ").split() if word not in {"NVIDIA", "Tesla", "GeForce"}]
    return "".join(letter for letter in words[0] if letter.isalnum()) if words else "GPU"


class Session:
    """A sequence of runs that ends in time.

    Args:
        seconds: for all runs together.
        programs: the folder of the programs.
        variables: `NAME=VALUE` of their environment.
    """

    def __init__(self, python: Path, seconds: float, programs: Path, variables: Sequence[str] = ()) -> None:
        self._python = python
        self._seconds = seconds
        self._programs = programs
        self._variables = variables
        self._begin = time.monotonic()

    @property
    def elapsed_s(self) -> float:
        """Seconds since the session began."""
        return time.monotonic() - self._begin

    @property
    def left_s(self) -> float:
        """Seconds that are left."""
        return self._seconds - self.elapsed_s

    def run(self, case: Case, machine: Machine, length: float | None = None) -> Row:
        """Run a case and compare; a case that cannot run here, or for which no time is left, has a reason instead.

        Args:
            length: seconds for which the program keeps the GPU busy; as long as the measurement takes, if `None`.
        """
        skipped = Row(case.name, None, expected=tuple(sorted(case.kinds)))
        if case.needs_torch and not machine.torch:
            return replace(skipped, problem=f"{self._python} has no PyTorch with CUDA")
        needed = limit_s(case, machine.counters)
        if self.left_s < needed:
            return replace(skipped, problem=f"{self.left_s:.0f} s are left, and it may take {needed:.0f} s")
        seconds = length_s(machine.counters) if length is None else length
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as state:
            done = self._gpuproof(case, seconds, needed, state)
        if done is None:
            return replace(skipped, ok=False, problem=f"it did not end within {needed:.0f} s")
        took = time.monotonic() - began
        try:
            document = json.loads(done.stdout)
        except ValueError:
            return replace(skipped, ok=False, problem=f"gpuproof run failed: {done.stderr[-500:]}")
        run = document.get("run") or {}
        if run.get("status") != "Completed":
            problem = f"the program failed: {run.get('failure_reason') or done.stderr[-500:]}"
            return replace(skipped, ok=False, problem=problem[:500])
        return compare(case, document, machine.counters, took)

    def run_tests(self, project: Path) -> Row:
        """Run the tests that need a GPU, in what is left of the time."""
        row = Row("tests", None)
        if self.left_s < 4 * _ENDING_S:
            return replace(row, problem="no time is left")
        command = [sys.executable, "-m", "pytest", "-m", "gpu", "-q", "--continue-on-collection-errors"]
        command += GPU_TESTS
        done = _run(command, self.left_s - _ENDING_S, os.environ.copy(), project)
        if done is None:
            return replace(row, problem="they did not end in time")
        return replace(row, ok=done.returncode == 0, problem=done.stdout[-300:] if done.returncode else None)

    def _gpuproof(
        self, case: Case, seconds: float, limit: float, state: str
    ) -> subprocess.CompletedProcess[str] | None:
        command = [sys.executable, "-m", "gpuproof", "run", str(self._programs / case.program)]
        command += [word for variable in self._variables for word in ("--env", variable)]
        command += ["--gpu", "1", "--python", str(self._python), "--format", "json", "--name"]
        command += [case.name.replace("_", "-"), "--", f"{seconds:g}", *case.arguments]
        source = str(self._programs.parents[1] / "src")
        path = os.pathsep.join(filter(None, (source, os.environ.get("PYTHONPATH"))))
        environment = {**os.environ, "PYTHONPATH": path, "GPUPROOF_STATE_DIR": state, "CI": "1"}
        return _run(command, limit, environment)


def _run(
    command: Sequence[str], limit: float, environment: dict[str, str], folder: Path | None = None
) -> subprocess.CompletedProcess[str] | None:
    """Run a command; `None` if it was ended because it took too long."""
    with subprocess.Popen(
        command,
        env=environment,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            out, err = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            # As with Ctrl-C, gpuproof ends the script and waits for it.
            process.terminate()
            try:
                process.communicate(timeout=_ENDING_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
            return None
    return subprocess.CompletedProcess(command, process.returncode, out, err)
