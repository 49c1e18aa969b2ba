"""Runs scripts with the hooks that time their steps, and reads what they record."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import gpuproof

SHIMS = Path(gpuproof.__file__).parent / "runtime" / "shims"


class Timed:
    """A script's records, one for each of its processes that trained, by rank.

    Args:
        line: returns the number of the only line of the script that contains a text.
    """

    def __init__(self, code: str, done: subprocess.CompletedProcess[str], folder: Path) -> None:
        self._code = code
        self.output = done.stdout
        self.errors = done.stderr
        self.code = done.returncode
        found = [json.loads(path.read_text()) for path in folder.glob("*.json")]
        self.records: list[dict[str, Any]] = sorted(found, key=lambda record: record["rank"] or 0)

    @property
    def record(self) -> dict[str, Any]:
        (record,) = self.records
        assert record["notes"] == []
        return record

    @property
    def phases(self) -> list[str]:
        """The phases that took any time, the longest first."""
        phases = self.record["phases"]
        return sorted((name for name in phases if phases[name]), key=lambda name: -phases[name])

    def line(self, text: str) -> int:
        (number,) = [n for n, line in enumerate(self._code.splitlines(), 1) if text in line]
        return number


def run_timed(folder: Path, code: str, *launcher: str, hooks: bool = True, **variables: str) -> Timed:
    """Run a script to its end, in a process of its own.

    Args:
        launcher: of several ranks; what precedes the script on the command line, after the interpreter.
    """
    (folder / "train.py").write_text(code + _END_OF_A_RANK if launcher else code)
    steps = folder / "steps"
    environment = hooked_environment(steps if hooks else None, **variables)
    done = subprocess.run(
        [sys.executable, *launcher, "train.py"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
    )
    return Timed(code, done, steps)


def hooked_environment(steps: Path | None, **variables: str) -> dict[str, str]:
    """The variables of a script whose steps are timed."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GPUPROOF_")}
    environment.update({"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", **variables})
    environment["PYTHONPATH"] = str(SHIMS)
    if steps is not None:
        environment["GPUPROOF_STEPS"] = str(steps)
    return environment


_TIMEOUT_S = 900
_END_OF_A_RANK = """
import atexit, os, sys
atexit._run_exitfuncs()
sys.stdout.flush()
os._exit(0)
"""
"""DistributedDataParallel keeps the threads of gloo also after `destroy_process_group`; one that needs the interpreter while that ends
aborts the process ("terminate called without an active exception"), with or without hooks."""
_SERVER = """
import importlib, json, os, runpy, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
from gpuproof.runtime.steps.install import process_recorder
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        break
    _, status = os.waitpid(child, 0)
    print(os.waitstatus_to_exitcode(status), flush=True)
else:
    os._exit(0)
folder = json.loads(line)
for number, name in enumerate((os.devnull, f"{folder}/stdout", f"{folder}/stderr")):
    os.dup2(os.open(name, os.O_RDWR | os.O_CREAT), number)
os.chdir(folder)
sys.argv, sys.path[0] = ["train.py"], folder
recorder = process_recorder()
recorder._folder = type(recorder._folder)(folder, "steps")
recorder.reset()
runpy.run_path("train.py", run_name="__main__")
"""


class TimedScripts:
    """Runs scripts as forks of a process that has imported their frameworks with hooks.

    Args:
        modules: what it imports.
    """

    def __init__(self, *modules: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _SERVER, *modules],
            env=hooked_environment(Path(os.devnull)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __call__(self, folder: Path, code: str) -> Timed:
        """Run a script that must succeed."""
        (folder / "train.py").write_text(code)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{json.dumps(str(folder))}\n")
        self._process.stdin.flush()
        status = int(self._process.stdout.readline())
        output, errors = ((folder / name).read_text() for name in ("stdout", "stderr"))
        assert status == 0, errors
        done = subprocess.CompletedProcess((), status, output, errors)
        return Timed(code, done, folder / "steps")

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
