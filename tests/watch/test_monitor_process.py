"""The monitor process, with real clients and the stub NVML."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from support.nvml_stub import SCENARIO_VARIABLE, Scenario

MEMBER = """
import json, os, sys, time
from gpuproof.util.monitor_client import MonitorClient
key, pid_file, seconds = sys.argv[1:4]
client = MonitorClient(key)
client.register({"gpus": 1}, {}, command=["member"])
open(pid_file, "w").write(str(os.getpid()))
sys.stdin.readline()
time.sleep(float(seconds))
print(json.dumps(client.finish(0)), flush=True)
client.close()
"""
PART = """
import json, os, sys, time
from gpuproof.util.monitor_client import MonitorClient
client = MonitorClient()
client.begin("cell-1", {"gpus": 1}, {})
open(sys.argv[1], "w").write(str(os.getpid()))
time.sleep(2)
print(json.dumps(client.end("cell-1")["report"]["verdict"]["outcome"]))
"""


def start(nvml_home: Path, scenario: Scenario, *words: str) -> subprocess.Popen[str]:
    """Start a client on a machine that looks as the scenario."""
    environment = {
        **os.environ,
        SCENARIO_VARIABLE: str(scenario.write().path),
        "LD_LIBRARY_PATH": str(nvml_home),
    }
    return subprocess.Popen(
        [sys.executable, "-c", *words],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_the_last_member_of_a_job_gets_the_report(nvml_home: Path, tmp_path: Path):
    scenario = Scenario(tmp_path / "gpus.txt").gpu(0).when_registered(tmp_path / "pid-1")
    key = f"test-{os.getpid()}"
    members = [
        start(nvml_home, scenario, MEMBER, key, str(tmp_path / f"pid-{number}"), "2" if number else "0")
        for number in range(2)
    ]
    while not all((tmp_path / f"pid-{number}").exists() for number in range(2)):
        assert all(member.poll() is None for member in members)
    answers = [json.loads(member.communicate("go\n", timeout=300)[0]) for member in members]
    assert [answer["last"] for answer in answers] == [False, True]
    report = answers[1]["report"]
    assert report["verdict"]["outcome"] == "used"
    assert report["command"] == ["member"]


def test_a_part_of_a_programs_work_has_a_report_of_its_own(nvml_home: Path, tmp_path: Path):
    scenario = Scenario(tmp_path / "gpus.txt").gpu(0).when_registered(tmp_path / "pid")
    client = start(nvml_home, scenario, PART, str(tmp_path / "pid"))
    assert json.loads(client.communicate(timeout=300)[0]) == "used"
