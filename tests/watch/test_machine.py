"""`gpuproof watch --for`, with real processes and the stub NVML."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpuproof.gpu.nvml import MIB
from gpuproof.watch.running.machine_report import MachineReport, Program, machine_text
from gpuproof.watch.running.process_facts import ProcessFacts, read_facts
from gpuproof.watch.running.program_root import find_program_root
from support.nvml_stub import SCENARIO_VARIABLE, Scenario

pytestmark = pytest.mark.slow

WORKS = """
import os, subprocess, sys, time
pid_file, *rest = sys.argv[1:]
if rest:
    subprocess.Popen([sys.executable, "-c", rest[0], pid_file], start_new_session=True)
else:
    open(pid_file + ".new", "w").write(str(os.getpid()))
    os.rename(pid_file + ".new", pid_file)
time.sleep(600)
"""
# Its GPU process goes on when it ends.
LEAVES = """
import subprocess, sys
subprocess.Popen([sys.executable, "-c", sys.argv[2], sys.argv[1]], start_new_session=True)
"""


class Machine:
    """A machine with GPUs, and what runs there."""

    def __init__(self, folder: Path, home: Path, gpus: int) -> None:
        self.folder = folder
        self.home = home
        self.looks = folder / "looks"
        self.scenario = Scenario(folder / "gpus.txt").gpus(gpus).seen(self.looks)
        self.started: list[subprocess.Popen[str]] = []
        self.orphans: list[int] = []

    def program(self, name: str, code: str = WORKS, *words: str) -> int:
        """Start a program that writes the id of its GPU process; returns the program's own id."""
        process = subprocess.Popen([sys.executable, "-c", code, str(self.folder / name), *words], text=True)
        self.started.append(process)
        return process.pid

    def gpu_process(self, name: str) -> int:
        """The id of the process that uses the GPU."""
        file = self.folder / name
        deadline = time.monotonic() + 300
        while not file.exists():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        return int(file.read_text())

    def watch(self, *words: str) -> subprocess.Popen[str]:
        self.scenario.write()
        process = subprocess.Popen(
            [sys.executable, "-m", "gpuproof", "watch", *words],
            env={**os.environ, SCENARIO_VARIABLE: str(self.scenario.path), "LD_LIBRARY_PATH": str(self.home)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.started.append(process)
        return process

    def report(self, *words: str) -> dict[str, Any]:
        """The report of two seconds, as JSON."""
        watch = self.watch("--for", "2s", "--format", "json", *words)
        output, errors = watch.communicate(timeout=120)
        assert watch.returncode == 0, errors
        return json.loads(output)

    def wait_for_looks(self, count: int) -> None:
        deadline = time.monotonic() + 300
        while self.looks.stat().st_size < count:
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def end(self) -> None:
        for process in self.started:
            process.kill()
            process.communicate()
        for pid in self.orphans:
            os.kill(pid, signal.SIGKILL)


@pytest.fixture
def machine(tmp_path: Path, nvml_home: Path) -> Iterator[Machine]:
    made = Machine(tmp_path, nvml_home, gpus=4)
    yield made
    made.end()


def test_each_program_has_its_gpus_its_utilization_and_a_verdict(machine: Machine):
    worker, holder = machine.program("worker"), machine.program("holder")
    for name in ("worker", "holder"):
        machine.gpu_process(name)
    machine.scenario.when_registered(machine.folder / "worker", 0, util=40, memory_mib=3000)
    machine.scenario.when_registered(machine.folder / "worker", 1, util=60, memory_mib=5000)
    machine.scenario.when_registered(machine.folder / "holder", 2, util=0, memory_mib=7000)
    report = machine.report()
    assert report["kind"] == "machine"
    assert [gpu["utilization"] for gpu in report["gpus"]] == [40.0, 60.0, 0.0, 0.0]
    programs = {program["pid"]: program for program in report["programs"]}
    assert programs.keys() == {worker, holder}
    assert programs[worker]["gpus"] == [0, 1]
    assert programs[worker]["utilization"] == 50.0
    assert programs[worker]["memory"] == 8000 * MIB
    assert programs[worker]["verdict"]["outcome"] == "used"
    assert programs[holder]["gpus"] == [2]
    assert programs[holder]["verdict"]["outcome"] == "idle"
    assert programs[holder]["command"][:2] == [sys.executable, "-c"]


def test_the_text_names_idle_holders_and_unused_gpus(machine: Machine):
    holder = machine.program("holder")
    machine.gpu_process("holder")
    machine.scenario.when_registered(machine.folder / "holder", 2, util=0, memory_mib=7000)
    watch = machine.watch("--for", "1s")
    output, errors = watch.communicate(timeout=120)
    assert watch.returncode == 0, errors
    assert "0 programs worked, 1 held memory without work (6.8 GiB)." in output
    text = " ".join(output.split())
    assert f"pid {holder}: holds 6.8 GiB and did no work while it was watched; it runs since 20" in text
    assert "GPUs 0, 1 and 3: no process uses them." in output


def test_the_ranks_of_a_launcher_are_one_program(machine: Machine):
    launcher = machine.program("rank", WORKS, WORKS)
    rank = machine.gpu_process("rank")
    machine.scenario.when_registered(machine.folder / "rank", 0)
    assert rank != launcher
    assert [program["pid"] for program in machine.report()["programs"]] == [launcher]


def test_what_two_programs_share_is_told_apart_by_process(machine: Machine):
    first, second = machine.program("first"), machine.program("second")
    pids = [machine.gpu_process(name) for name in ("first", "second")]
    machine.scenario.at(0, 0, util=80, memory_mib=3000, processes={pids[0]: (1000, 80), pids[1]: (2000, 0)})
    programs = {program["pid"]: program for program in machine.report()["programs"]}
    assert programs[first]["verdict"]["outcome"] == "used"
    assert programs[second]["verdict"]["outcome"] == "idle"
    assert (programs[first]["memory"], programs[second]["memory"]) == (1000 * MIB, 2000 * MIB)


def test_a_program_that_starts_meanwhile_appears_and_one_that_ends_stays(machine: Machine):
    machine.scenario.when_registered(machine.folder / "late", 0)
    watch = machine.watch("--for", "1h", "--format", "json")
    machine.wait_for_looks(2)
    late = machine.program("late")
    machine.gpu_process("late")
    machine.wait_for_looks(machine.looks.stat().st_size + 6)
    machine.started[-1].kill()
    machine.started[-1].wait()
    machine.wait_for_looks(machine.looks.stat().st_size + 3)
    watch.send_signal(signal.SIGINT)
    report = json.loads(watch.communicate(timeout=300)[0])
    assert watch.returncode == 0
    (program,) = report["programs"]
    assert (program["pid"], program["has_ended"]) == (late, True)
    assert program["verdict"]["outcome"] == "used"


def test_a_gpu_process_whose_launcher_has_ended_is_a_program(machine: Machine):
    machine.program("orphan", LEAVES, WORKS)
    orphan = machine.gpu_process("orphan")
    machine.orphans.append(orphan)
    machine.started[-1].wait()
    machine.scenario.when_registered(machine.folder / "orphan", 0)
    assert [program["pid"] for program in machine.report()["programs"]] == [orphan]


def test_processes_of_other_containers_are_said_to_be_invisible(machine: Machine):
    # An id that no process of this machine can have.
    machine.scenario.at(0, 0, util=88, memory_mib=20000, processes={2**22 + 5: 19000})
    machine.scenario.at(0, 1, util=30, memory_mib=5000)
    report = machine.report()
    assert report["programs"] == []
    assert [gpu["used_by_unknown"] for gpu in report["gpus"]] == [True, True, False, False]
    assert report["gpus"][0]["hidden_processes"] == 1
    output, _ = machine.watch("--for", "1s").communicate(timeout=300)
    assert "GPU 0 is used by processes that are not visible here" in output
    assert "(88% busy, 19.5 GiB)" in output


def test_more_programs_than_are_judged_are_counted(machine: Machine):
    names = [f"program-{number}" for number in range(18)]
    for name in names:
        machine.program(name)
    processes = {machine.gpu_process(name): 100 for name in names}
    machine.scenario.at(0, 0, util=80, memory_mib=3000, processes=processes)
    report = machine.report()
    assert len(report["programs"]) == 16
    assert report["more_processes"] == 2


def test_programs_that_have_ended_make_room_for_others(machine: Machine):
    first = [f"program-{number}" for number in range(16)]
    for name in first:
        machine.program(name)
    processes = {machine.gpu_process(name): 100 for name in first}
    machine.scenario.at(0, 0, util=80, memory_mib=3000, processes=processes)
    watch = machine.watch("--for", "1h", "--format", "json")
    machine.wait_for_looks(2)
    ended = machine.started[0]
    ended.kill()
    ended.wait()
    late = machine.program("late")
    processes = {pid: 100 for pid in processes if pid != ended.pid} | {machine.gpu_process("late"): 100}
    machine.scenario.at(0, 0, util=80, memory_mib=3000, processes=processes)
    machine.scenario.write()
    machine.wait_for_looks(machine.looks.stat().st_size + 4)
    watch.send_signal(signal.SIGINT)
    report = json.loads(watch.communicate(timeout=300)[0])
    found = {program["pid"] for program in report["programs"]}
    assert late in found
    assert ended.pid not in found
    assert (len(found), report["ended_earlier"], report["more_processes"]) == (16, 1, 0)


@pytest.mark.parametrize("form", ["text", "json"])
def test_without_a_driver_one_line_and_exit_code_3(form: str):
    ended = subprocess.run(
        [sys.executable, "-m", "gpuproof", "watch", "--for", "1s", "--format", form],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ended.returncode == 3
    assert ended.stderr == (
        "gpuproof: No GPU of this machine could be watched: the NVIDIA driver is not installed.\n"
    )
    if form == "json":
        assert json.loads(ended.stdout)["problem"] == "the NVIDIA driver is not installed"
    else:
        assert ended.stdout == ""


def test_a_driver_without_a_gpu_is_the_same(tmp_path: Path, nvml_home: Path):
    machine = Machine(tmp_path, nvml_home, gpus=0)
    watch = machine.watch("--for", "1s")
    output, errors = watch.communicate(timeout=300)
    assert (watch.returncode, output) == (3, "")
    assert "the NVIDIA driver is installed and finds no GPU" in errors


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--for", "0"), "--for needs a time"),
        (("--for", "soon"), "write, for example, 45s, 5m or 1h30m"),
        (("--for", "1s", "--gpus", "1"), "need a command or --pid"),
        (("--for", "1s", "--to", "reports"), "--to works for a command that gpuproof starts, not with --for"),
        (("--for", "1s", "--report", "none/report.json"), "there is no folder none"),
        (("--for", "1s", "--", "true"), "leave out the command"),
    ],
)
def test_wrong_usage_is_exit_code_2(machine: Machine, words: tuple[str, ...], message: str):
    watch = machine.watch(*words)
    output, errors = watch.communicate(timeout=300)
    assert (watch.returncode, output) == (2, "")
    assert message in errors


def process(pid: int, name: str, parent: int, group: int = 0) -> ProcessFacts:
    return ProcessFacts(pid, name, parent, group or pid, pid, 0, 0.0, "ada", (name,))


@pytest.mark.parametrize(
    ("chain", "launcher"),
    [
        # A user's shell gives torchrun a process group, and torchrun gives its ranks sessions.
        ([(50, "sshd", 1), (60, "bash", 50), (70, "torchrun", 60), (80, "python", 70)], 70),
        # A script's shell has the group of what it runs.
        ([(50, "cron", 1), (60, "bash", 50, 60), (70, "python", 60, 60)], 60),
        ([(50, "containerd-shim-r", 1), (60, "python", 50)], 60),
        ([(50, "jupyter-lab", 1), (60, "python", 50)], 60),
        ([(50, "slurmstepd: [1", 1), (60, "python", 50)], 60),
        ([(60, "python", 1)], 60),
    ],
)
def test_the_launcher_is_below_shells_and_services(chain: list[tuple[Any, ...]], launcher: int):
    known = {fields[0]: process(*fields) for fields in chain}
    found = find_program_root(max(known), known.get)
    assert found is not None
    assert found.pid == launcher


def test_what_has_started_this_watch_launches_no_program():
    known = {1: process(1, "init", 0), 50: process(50, "python", 1), 60: process(60, "python", 50)}
    known[os.getpid()] = process(os.getpid(), "python", 50)
    found = find_program_root(60, known.get)
    assert found is not None
    assert found.pid == 60


def test_the_facts_of_a_process_are_those_of_proc():
    facts = read_facts(os.getpid())
    assert facts is not None
    assert (facts.parent, facts.group, facts.session) == (os.getppid(), os.getpgrp(), os.getsid(0))
    assert 0 < facts.age < 24 * 3600
    assert read_facts(2**22 + 1) is None


def test_a_long_command_is_shortened_and_a_container_named():
    program = Program(
        7, "ada", ("/usr/bin/python3", "train.py", "x" * 50), "container 3f2a9c1b7d0e", 0.0, False, (0,), 50.0, None,
        {"outcome": "used", "gpus": [], "gpus_working": 1, "bottlenecks": [{"kind": "disk", "sentence": "Slow disk."}]},
    )  # fmt: skip
    text = machine_text(MachineReport("host", 0.0, 60.0, programs=(program,)))
    assert "container 3f2a9c1b7d0e: python3 train.py xxxxxxxxxx" in text
    assert "…" in text
    assert "storage" in text
    assert "pid 7: Slow disk." in text
