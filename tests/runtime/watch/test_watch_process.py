"""`rt.watch()` as a call, in real scripts on a machine with the stub NVML."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.nvml_stub import SCENARIO_VARIABLE, STAYS, Scenario, build_library

UNUSED = "No process of the job opened a GPU."


@pytest.fixture(scope="session")
def nvml_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that holds the stub library; skips where there is no compiler."""
    return build_library(tmp_path_factory.mktemp("stub"))


class Machine:
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

    def start(self, script: str, *words: str, **variables: str) -> subprocess.Popen[str]:
        """Start a script."""
        file = self._folder / "script.py"
        file.write_text(script)
        environment = {
            **os.environ,
            SCENARIO_VARIABLE: str(self.scenario.write().path),
            "LD_LIBRARY_PATH": str(self._home),
            **variables,
        }
        return subprocess.Popen(
            [sys.executable, *(words or (str(file),))],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, script: str, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a script to its end."""
        process = self.start(script, *words, **variables)
        out, err = process.communicate(timeout=120)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)


@pytest.fixture
def machine(nvml_home: Path, tmp_path: Path) -> Machine:
    """A machine with one GPU."""
    return Machine(nvml_home, tmp_path)


def test_a_script_that_uses_its_gpu_keeps_its_output_and_exit_code(machine: Machine, tmp_path: Path):
    report = tmp_path / "report.json"
    script = (
        f"import gpuproof.runtime as rt\nrt.watch(report={str(report)!r})\n{machine.works}\nprint('done')"
    )
    ended = machine.run(script)
    assert (ended.returncode, ended.stdout) == (0, "done\n"), ended.stderr
    assert "A10G" in ended.stderr
    document = json.loads(report.read_text())
    assert (document["verdict"]["outcome"], document["exit_code"]) == ("used", 0)
    assert document["command"][-1] == str(tmp_path / "script.py")


@pytest.mark.parametrize(
    ("ending", "code"),
    [
        ("", 4),
        ("sys.exit()", 4),
        ("sys.exit(3)", 3),
        ("sys.exit('why')", 1),
        ("exit(6)", 6),
        ("1 / 0", 1),
        ("os._exit(0)", 0),
        ("os.kill(os.getpid(), signal.SIGTERM)", -15),
        ("raise SystemExit(0)", 4),
        ("try:\n    sys.exit(3)\nexcept SystemExit:\n    pass", 4),
    ],
)
def test_only_a_script_that_would_have_succeeded_ends_with_exit_code_4(
    machine: Machine, ending: str, code: int
):
    ended = machine.run(f"import os, signal, sys\nimport gpuproof.runtime as rt\nrt.watch()\n{ending}")
    assert ended.returncode == code, ended.stderr
    assert ended.stderr.count(UNUSED) == 1


def test_a_gpu_that_is_not_required_is_only_reported(machine: Machine):
    ended = machine.run("import gpuproof.runtime as rt\nrt.watch(require_gpu=False)")
    assert ended.returncode == 0
    assert UNUSED in ended.stderr
