"""`gpuproof watch -- COMMAND`, with a real command and the stub NVML."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.nvml_stub import SCENARIO_VARIABLE, Scenario

# Registers as the process that uses the GPU, until a file appears.
WORKS = """
import os, sys, time
open(sys.argv[1], "w").write(str(os.getpid()))
time.sleep(2)
print("done")
"""


def watch(nvml_home: Path, scenario: Scenario, *words: str) -> subprocess.CompletedProcess[str]:
    """Run `gpuproof watch` on a machine that looks as the scenario."""
    scenario.write()
    environment = {
        **os.environ,
        SCENARIO_VARIABLE: str(scenario.path),
        "LD_LIBRARY_PATH": str(nvml_home),
    }
    return subprocess.run(
        [sys.executable, "-m", "gpuproof", "watch", *words],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_command_that_uses_its_gpu_keeps_its_output_and_exit_code(nvml_home: Path, tmp_path: Path):
    scenario = Scenario(tmp_path / "gpus.txt").gpu(0).when_registered(tmp_path / "pid")
    report = tmp_path / "report.json"
    ended = watch(
        nvml_home,
        scenario,
        "--report",
        str(report),
        "--",
        sys.executable,
        "-c",
        WORKS,
        str(tmp_path / "pid"),
    )
    assert (ended.returncode, ended.stdout) == (0, "done\n"), ended.stderr
    document = json.loads(report.read_text())
    assert document["verdict"]["outcome"] == "used"
    assert document["verdict"]["expectation"]["gpus"] == 1
    assert document["command"][0] == sys.executable


@pytest.mark.parametrize(("flags", "code"), [((), 4), (("--no-require-gpu",), 0)])
def test_a_command_that_never_opens_its_gpu_ends_with_exit_code_4(
    nvml_home: Path, tmp_path: Path, flags: tuple[str, ...], code: int
):
    scenario = Scenario(tmp_path / "gpus.txt").gpus(2)
    ended = watch(nvml_home, scenario, *flags, "--", sys.executable, "-c", "print('cpu')")
    assert (ended.returncode, ended.stdout) == (code, "cpu\n"), ended.stderr
    assert "No process of the job opened a GPU." in ended.stderr


def test_the_exit_code_of_a_failed_command_stays(nvml_home: Path, tmp_path: Path):
    scenario = Scenario(tmp_path / "gpus.txt").gpu(0)
    ended = watch(nvml_home, scenario, "--", sys.executable, "-c", "raise SystemExit(7)")
    assert ended.returncode == 7
