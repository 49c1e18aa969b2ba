"""Commands that are ended because no GPU worked, or because nothing made progress; real ones, with the stub NVML."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.aws_loopback import MetadataService
from support.nvml_stub import SCENARIO_VARIABLE, Scenario

pytestmark = pytest.mark.slow
FOREVER = "import time; print('begun', flush=True); time.sleep(600)"
PRINTS = """
import time
for number in range(12):
    print(number, flush=True)
    time.sleep(1.4)
"""


@pytest.fixture
def watch(nvml_home: Path, tmp_path: Path):
    """Runs a Python program under `gpuproof watch` on a machine with one GPU; returns the process and the report."""
    scenario = Scenario(tmp_path / "gpus.txt").gpu(0).when_registered(tmp_path / "pid").write()
    report = tmp_path / "report.json"

    def run(*words: str, **variables: str):
        environment = {
            **os.environ,
            SCENARIO_VARIABLE: str(scenario.path),
            "LD_LIBRARY_PATH": str(nvml_home),
            **variables,
        }
        process = subprocess.run(
            [sys.executable, "-m", "gpuproof", "watch", "--report", str(report), *words],
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        return process, json.loads(report.read_text())

    return run


def test_a_command_whose_gpu_is_unused_is_ended_with_exit_code_4(watch):
    process, report = watch("--if-unused", "stop", "--grace", "15s", "--", sys.executable, "-c", FOREVER)
    assert (process.returncode, process.stdout) == (4, "begun\n")
    assert "no GPU did any work in the first 15 s (--if-unused stop): the command is ended." in process.stderr
    assert report["stopped_because"] == "gpu-unused"
    assert report["signal"] == signal.SIGTERM


def test_what_a_command_has_started_ends_with_it(watch, tmp_path: Path):
    pid_file = tmp_path / "child"
    script = f"sh -c 'trap \"\" TERM; echo $$ > {pid_file}; sleep 600; :' & sleep 600"
    process, _ = watch("--if-unused", "stop", "--grace", "15s", "--", "sh", "-c", script)
    assert process.returncode == 4
    assert not Path(f"/proc/{pid_file.read_text().strip()}").exists()


def test_a_warning_is_a_line_and_a_note(watch):
    process, report = watch(
        "--if-unused", "warn", "--grace", "1s", "--no-require-gpu", "--", sys.executable, "-c", PRINTS
    )
    assert process.returncode == 0
    assert "no GPU did any work in the first 1.0 s (--if-unused warn)" in process.stderr
    assert len(report["notes"]) == 1


def test_a_command_without_progress_is_ended_with_exit_code_124(watch):
    process, report = watch("--stall-timeout", "15s", "--", sys.executable, "-c", FOREVER)
    assert process.returncode == 124
    assert "stack traces of all Python processes (1)" in process.stderr
    assert 'File "<string>", line 1 in <module>' in process.stderr
    assert "nothing was written for 15 s (--stall-timeout)" in process.stderr
    assert report["stopped_because"] == "stalled"


def test_output_is_progress(watch):
    process, report = watch("--stall-timeout", "15s", "--no-require-gpu", "--", sys.executable, "-c", PRINTS)
    assert process.returncode == 0
    assert process.stdout.endswith("11\n")
    assert report["stopped_because"] is None


def test_the_report_has_the_instance_and_its_cost(watch):
    paths = {
        "meta-data/instance-type": "g5.xlarge",
        "meta-data/placement/region": "us-east-1",
        "meta-data/instance-life-cycle": "spot",
    }
    with MetadataService(paths) as service:
        process, report = watch(
            *("--no-require-gpu", "--", "sleep", "2"), AWS_EC2_METADATA_SERVICE_ENDPOINT=service.url
        )
    assert report["instance"] == {"type": "g5.xlarge", "region": "us-east-1", "life_cycle": "spot"}
    assert report["cost_usd"] > 0
    assert "on g5.xlarge in us-east-1 (spot)" in process.stderr
    assert process.returncode == 0


@pytest.mark.parametrize("words", [("--report", "/no/such/folder/x.json"), ("--grace", "soon")])
def test_wrong_options_are_noticed_before_the_command_starts(tmp_path: Path, words: tuple[str, ...]):
    mark = tmp_path / "mark"
    command = [sys.executable, "-m", "gpuproof", "watch", *words, "--", "touch", str(mark)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 2
    assert words[1] in ended.stderr
    assert not mark.exists()
