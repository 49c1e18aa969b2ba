"""Snapshots of real local runs and of this machine, whose GPUs are those of the stub NVML."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import gpuproof
from gpuproof import settings
from gpuproof.app.live_view import MachineView, RunView, Snapshot
from gpuproof.app.live_view.machine_view import NoGpus
from gpuproof.backends.base import Live
from gpuproof.backends.local.backend import local_run_store
from gpuproof.gpu.nvml import MIB
from support.nvml_stub import Scenario, build_library, loaded

WORKS = """
import os, time
with open({pid!r}, "w") as file:
    file.write(str(os.getpid()))
print("epoch 1", flush=True)
while not os.path.exists({stop!r}):
    time.sleep(0.02)
"""


@pytest.fixture
def scenario(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch) -> Iterator[Scenario]:
    home = build_library(tmp_path_factory.getbasetemp() / "stub")
    scenario = Scenario(tmp_path / "gpus.txt")
    for name, value in scenario.environment(home).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("GPUPROOF_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("GPUPROOF_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    settings._made.cache_clear()
    with loaded(home):
        yield scenario
    settings._made.cache_clear()
    for record in local_run_store().records():
        run = local_run_store().run(record)
        run.stop(at_once=True)
        run.wait()


@pytest.mark.slow
def test_a_run_is_followed_from_its_first_sample_to_its_outcome(tmp_path: Path, scenario: Scenario) -> None:
    scenario.gpus(2).when_registered(tmp_path / "pid", 0, util=90, memory_mib=4000).write()
    stop = tmp_path / "stop"
    (tmp_path / "train.py").write_text(WORKS.format(pid=str(tmp_path / "pid"), stop=str(stop)))
    run = gpuproof.run(gpuproof.TrainingJob(entry_point="train.py"), wait=False)
    seen: list[Snapshot] = []
    for snapshot in RunView(run, history=3).snapshots():
        seen.append(snapshot)
        if snapshot.hosts and snapshot.hosts[0].gpus[0].utilization == 90 and len(snapshot.times) == 3:
            stop.touch()
    works = next(snapshot for snapshot in seen if snapshot.hosts and snapshot.hosts[0].gpus[0].utilization)
    (host,) = works.hosts
    assert (host.name, works.gpu_count, works.readings.source) == ("algo-1", 2, "agent")
    assert (host.gpus[0].memory_used, host.gpus[0].waiting_for) == (4000 * MIB, None)
    assert host.gpus[1].waiting_for == {"kind": "unused", "text": "no process of the job uses it"}
    assert all(len(snapshot.times) <= 3 for snapshot in seen)
    last = seen[-1]
    assert [snapshot.outcome is None for snapshot in seen] == [True] * (len(seen) - 1) + [False]
    assert (last.status, last.outcome.exit_code, last.outcome.verdict["outcome"]) == ("Completed", 0, "used")
    assert last.log == ("epoch 1",)
    assert len(last.hosts[0].gpus[0].utilization_history) == len(last.times) == 3
    assert json.loads(json.dumps(last.to_json()))["hosts"]["algo-1"]["gpus"][0]["utilization_history"]


@pytest.mark.slow
def test_a_run_that_is_looked_at_later_has_its_past(tmp_path: Path, scenario: Scenario) -> None:
    scenario.gpus(1).when_registered(tmp_path / "pid", 0, util=90, memory_mib=4000).write()
    stop = tmp_path / "stop"
    (tmp_path / "train.py").write_text(WORKS.format(pid=str(tmp_path / "pid"), stop=str(stop)))
    run = gpuproof.run(gpuproof.TrainingJob(entry_point="train.py"), wait=False)
    # Until the script has worked for a whole step.
    pasts = (event.sample["past"] for event in run.follow(live=True) if isinstance(event, Live))
    past = next(past for past in pasts if past["gpus"] and past["gpus"][0]["utilization"][-1] == 90)
    found = RunView(run).first()
    stop.touch()
    (gpu,) = found.hosts[0].gpus
    steps = len(past["times"])
    assert found.times[:steps] == tuple(past["times"])
    assert found.times[steps] > past["times"][-1]
    assert all(time % 10 == 0 for time in past["times"])
    assert gpu.utilization_history[:steps] == tuple(past["gpus"][0]["utilization"])
    assert gpu.memory_history[steps - 1] == 4000 * MIB


@pytest.mark.slow
def test_a_run_that_has_ended_has_its_log_and_its_outcome(tmp_path: Path, scenario: Scenario) -> None:
    scenario.gpus(1).write()
    (tmp_path / "train.py").write_text("print('hello')\nraise SystemExit(3)\n")
    run = gpuproof.run(gpuproof.TrainingJob(entry_point="train.py"), wait=False)
    run.wait()
    found = RunView(run).first()
    assert found.outcome.exit_code == 1
    assert found.log[0] == "hello"
    document = found.to_json(history=False)
    assert (document["version"], document["kind"], document["status"]) == (1, "run", "Failed")
    assert "times" not in document


def test_this_machine_is_seen_with_its_programs(tmp_path: Path, scenario: Scenario) -> None:
    command = [sys.executable, "-c", "print(flush=True); input()"]
    program = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert program.stdout is not None
    program.stdout.readline()  # in /proc, it has its command only from its first instructions on
    scenario.gpus(2).at(0, 0, util=80, memory_mib=3000, power_w=120, processes={program.pid: 2900}).write()
    with program, MachineView() as view:
        seen: list[Snapshot] = []
        for snapshot in view.snapshots():
            seen.append(snapshot)
            if len(seen) == 2:
                view.close()
        program.kill()
    (host,) = seen[-1].hosts
    assert [gpu.utilization for gpu in host.gpus] == [80, 0]
    assert (host.gpus[0].name, host.gpus[0].power_w) == ("NVIDIA A10G", 120)
    assert host.gpus[0].utilization_history == (80, 80)
    assert host.cores is not None
    assert 0 < host.rss < host.memory_total
    (found,) = host.programs
    assert (found.pid, found.gpus, found.memory) == (program.pid, (0,), 2900 * MIB)
    assert found.command[0] == sys.executable


def test_a_machine_without_a_gpu_is_an_error_with_the_next_command(scenario: Scenario, monkeypatch) -> None:
    scenario.write()
    with pytest.raises(NoGpus, match="finds no GPU") as error:
        MachineView()
    assert error.value.exit_code == 3
    assert "gpuproof top RUN" in error.value.remedy
