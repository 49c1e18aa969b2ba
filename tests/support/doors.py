"""The doors of GPUproof: each is a function that lets a program be watched, and returns the verdict's outcome."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

from gpuproof.agent.verdict import CPU_ONLY
from support.cli_sandbox import CliSandbox

if TYPE_CHECKING:
    from support.emulator_jobs import Account


@dataclass(frozen=True)
class Watched:
    """A program on a machine.

    Args:
        cli: runs commands there.
        folder: for files of the test.
        source: the program's; it only needs Python, and what it imports.
        instance_type: has as many GPUs as the machine.
        environment: the variables that show the machine's GPUs to a process; empty for real ones.
    """

    cli: CliSandbox
    folder: Path
    source: str
    instance_type: str
    environment: dict[str, str]

    @property
    def program(self) -> Path:
        """The file of the program."""
        return self.cli.write("train.py", self.source)


Door = Callable[[Watched], str]
ATTACH, CELL = "--pid", "%%gpu"
_ONE_LINE = "GPUproof: no usable GPU: the NVIDIA driver is not installed."
"""What a notebook shows in place of a report with the verdict `cpu-only` for this reason."""


def run(watched: Watched) -> str:
    """`gpuproof run`."""
    result = watched.cli.run_json(
        watched.program.name, "--instance-type", watched.instance_type, "--python", sys.executable
    )
    return result["verdict"]["outcome"]


def watch(watched: Watched) -> str:
    """`gpuproof watch -- COMMAND`."""
    report = watched.folder / "report.json"
    done = watched.cli.gpuproof("watch", "--report", report, "--", sys.executable, watched.program)
    assert report.exists(), done.stderr
    return _outcome(report)


def attach(watched: Watched) -> str:
    """`gpuproof watch --pid PID`, for a program that runs already."""
    report = watched.folder / "report.json"
    environment = {**os.environ, **watched.environment}
    with subprocess.Popen([sys.executable, watched.program], env=environment) as process:
        try:
            done = watched.cli.gpuproof("watch", "--report", report, "--pid", str(process.pid))
        finally:
            process.kill()
    assert report.exists(), done.stderr
    return _outcome(report)


def call(watched: Watched) -> str:
    """`rt.watch()` as the first line of the program."""
    report = watched.folder / "report.json"
    first = f"import gpuproof.runtime as rt\nrt.watch(report={str(report)!r})\n"
    program = watched.cli.write("watched.py", first + watched.source)
    environment = {**os.environ, **watched.environment}
    done = subprocess.run([sys.executable, program], env=environment, capture_output=True, text=True)
    assert report.exists(), done.stderr
    return _outcome(report)


def block(watched: Watched) -> str:
    """`with rt.watch():` around the program, as a part of another one."""
    report = watched.folder / "report.json"
    program = watched.cli.write(
        "part.py",
        f"import gpuproof.runtime as rt\nwith rt.watch(report={str(report)!r}, require_gpu=False):\n"
        + textwrap.indent(watched.source, "    "),
    )
    environment = {**os.environ, **watched.environment}
    done = subprocess.run([sys.executable, program], env=environment, capture_output=True, text=True)
    assert report.exists(), done.stderr
    return _outcome(report)


def cell(watched: Watched) -> str:
    """`%%gpu` above the program, in a cell of a real kernel."""
    from support.notebook_kernel import notebook_kernel  # a machine with a GPU may lack Jupyter

    folder = watched.folder / "notebook"
    folder.mkdir()
    with notebook_kernel(folder, watched.environment) as kernel:
        kernel.run("%load_ext gpuproof")
        (shown,) = kernel.run(f"%%gpu\n{watched.source}").shown()
    if shown.startswith(_ONE_LINE):
        return CPU_ONLY
    label, outcome = shown.partition(":")[0].split(maxsplit=1)
    assert label == "verdict", shown
    return outcome


DOORS: dict[str, Door] = {
    "run": run,
    "watch": watch,
    ATTACH: attach,
    "rt.watch()": call,
    "with rt.watch()": block,
    CELL: cell,
}
"""By name; all of them read the GPUs at least once a second."""


def audit(watched: Watched) -> tuple[str, str]:
    """`gpuproof audit JOB`, for a job that the emulator runs and measures on this machine; the outcome and the reason."""
    with patch.dict("os.environ", watched.environment), _account(watched.folder) as aws:
        resources = {"InstanceType": watched.instance_type, "InstanceCount": 1, "VolumeSizeInGB": 30}
        job = aws.trained(f"exec {sys.executable} {watched.program}", ResourceConfig=resources)
        assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
        watched.cli.environment.update(aws.emulator.environment)
        words = ("audit", job["TrainingJobName"], "--region", "us-east-1", "--format", "json")
        done = watched.cli.gpuproof(*words)
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout)["jobs"]
    return found["verdict"], found["reason"]


@contextmanager
def _account(folder: Path) -> Iterator[Account]:
    from support.aws_emulator import running_emulator  # a machine with a GPU may lack what the emulator needs
    from support.emulator_jobs import Account

    with running_emulator(folder) as emulator:
        name = f"d-{secrets.token_hex(4)}"
        yield Account(emulator, emulator.bucket(name), name)


def _outcome(report: Path) -> str:
    return json.loads(report.read_text())["verdict"]["outcome"]
