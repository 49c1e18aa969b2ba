"""A machine with GPUs for scripts that call `rt.watch()`: the real monitor process over the stub NVML."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from support.nvml_stub import SCENARIO_VARIABLE, STAYS, Scenario


class WatchMachine:
    """A machine with GPUs that runs scripts."""

    def __init__(self, home: Path, folder: Path) -> None:
        self._home = home
        self._folder = folder
        self.pid_file = folder / "pid"
        self.looks = folder / "looks"
        self.looks.touch()
        self.scenario = Scenario(folder / "gpus.txt").gpu(0).when_registered(self.pid_file).seen(self.looks)

    @property
    def works(self) -> str:
        """Code that uses the GPU until its work was seen."""
        return STAYS.format(files=[str(self.pid_file)], looks=str(self.looks), count=6)

    def write(self, script: str) -> Path:
        """Write a script and return its path."""
        file = self._folder / "script.py"
        file.write_text(script)
        return file

    def start(self, *words: str, **variables: str) -> subprocess.Popen[str]:
        """Start Python with these words."""
        environment = {
            **os.environ,
            SCENARIO_VARIABLE: str(self.scenario.write().path),
            "LD_LIBRARY_PATH": str(self._home),
            **variables,
        }
        return subprocess.Popen(
            [sys.executable, *words],
            env=environment,
            cwd=self._folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, script: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a script to its end."""
        return self.run_words(str(self.write(script)), **variables)

    def run_words(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run Python with these words to its end."""
        process = self.start(*words, **variables)
        out, err = process.communicate(timeout=120)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)
