"""Jobs of several processes on a machine with GPUs, of which each works while the rank with its number does."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from support.nvml_stub import SCENARIO_VARIABLE, Scenario

_LIMIT_S = 600.0

RANK = """
import os, signal, sys, time
folder, fails = sys.argv[1], sys.argv[2:]
names = ("TEST_RANK", "RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID", "JOB_COMPLETION_INDEX")
rank = next(os.environ[name] for name in names if name in os.environ)
if rank in fails:
    sys.exit(3)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
with open(f"{folder}/new-{rank}", "w") as file:
    file.write(str(os.getpid()))
os.rename(f"{folder}/new-{rank}", f"{folder}/pid-{rank}")
print(f"rank {rank} of node {os.environ.get('SLURMD_NODENAME')}\\n", end="", flush=True)
looks = f"{folder}/looks"
enough = os.path.getsize(looks) + 12
while os.path.getsize(looks) < enough or os.path.exists(f"{folder}/forever"):
    time.sleep(0.02)
"""
"""Works until its GPU was seen a few times; for ever, if there is a file of that name. Fails if its number is given."""


class RankedJob:
    """A job's folder and machine.

    Args:
        variables: with which its processes see the GPUs, and this GPUproof.
    """

    def __init__(self, folder: Path, nvml_home: Path, gpus: int = 4) -> None:
        self.folder = folder
        self.looks = folder / "looks"
        self.scenario = Scenario(folder / "gpus.txt").gpus(gpus).seen(self.looks)
        self.scenario.write()
        self.variables = {
            SCENARIO_VARIABLE: str(self.scenario.path),
            "LD_LIBRARY_PATH": str(nvml_home),
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        }
        self.script = folder / "rank.py"
        self.script.write_text(RANK)

    def works(self, *gpus: int) -> None:
        """Let these GPUs work while their ranks live."""
        for gpu in gpus:
            self.scenario.when_registered(self.folder / f"pid-{gpu}", gpu)
        self.scenario.write()

    def watch(self, *flags: str) -> list[str]:
        """The words before a command that is watched."""
        return [sys.executable, "-m", "gpuproof", "watch", *flags, "--"]

    def rank(self, *fails: str) -> list[str]:
        """The command of a rank."""
        return [sys.executable, str(self.script), str(self.folder), *fails]

    def run(self, command: Sequence[str], **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a command on the job's machine."""
        process = self.start(command, **variables)
        output, errors = process.communicate(timeout=_LIMIT_S)
        return subprocess.CompletedProcess(command, process.returncode, output, errors)

    def start(self, command: Sequence[str], **variables: str) -> subprocess.Popen[str]:
        """Start a command on the job's machine."""
        return subprocess.Popen(
            command,
            cwd=self.folder,
            env={**os.environ, **self.variables, **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
