"""`gpuproof watch --pid`, with real processes and the stub NVML."""

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

from gpuproof.watch.report import WatchReport
from gpuproof.watch.running.attach import common_environment, host_devices, watch_processes
from gpuproof.watch.running.process_facts import read_facts
from gpuproof.watch.settings import WatchSettings
from support.aws_loopback import MetadataService
from support.nvml_stub import SCENARIO_VARIABLE, Scenario
from watch.terminal import Terminal

pytestmark = pytest.mark.slow

LOOKS = 12
"""Readings of GPU 0 after which a program ends: enough for a verdict, however slow the machine is."""
STAYS = """
import os, sys, time
open(sys.argv[1], "w").write(str(os.getpid()))
looks = sys.argv[2]
while os.path.getsize(looks) < int(sys.argv[3]):
    time.sleep(0.02)
"""
# Its child leaves a grandchild behind, which works on the GPU; the child ends once the GPU was read.
ORPHANS = """
import os, subprocess, sys, time
stays, pid_file, looks, count = sys.argv[1:5]
child = '''
import os, subprocess, sys, time
worker = subprocess.Popen([sys.executable, "-c", *sys.argv[1:5]], start_new_session=True)
while os.path.getsize(sys.argv[3]) < 4:
    time.sleep(0.02)
os._exit(0)
'''
subprocess.run([sys.executable, "-c", child, stays, pid_file, looks, count])
while os.path.getsize(looks) < int(count) + 1:
    time.sleep(0.02)
"""


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[str]]]:
    """Processes that a test has started; they are ended with it."""
    processes: list[subprocess.Popen[str]] = []
    yield processes
    for process in processes:
        process.kill()
        process.communicate()


def watching(home: Path, scenario: Scenario, *words: str, **variables: str) -> subprocess.Popen[str]:
    """Start `gpuproof watch` on a machine that looks as the scenario."""
    scenario.write()
    environment = {**os.environ, SCENARIO_VARIABLE: str(scenario.path), "LD_LIBRARY_PATH": str(home)}
    environment |= variables
    return subprocess.Popen(
        [sys.executable, "-m", "gpuproof", "watch", *words],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def report_of(watch: subprocess.Popen[str]) -> dict[str, Any]:
    """The report that a watch prints as JSON."""
    output, errors = watch.communicate(timeout=120)
    assert output, errors
    return json.loads(output)


def until_written(file: Path) -> None:
    deadline = time.monotonic() + 300
    while not file.exists() or not file.stat().st_size:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def program(
    started: list[subprocess.Popen[str]], code: str, *words: str, **variables: str
) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", code, *words], env={**os.environ, **variables}, text=True
    )
    started.append(process)
    return process


def test_a_process_that_works_on_its_gpu_is_judged_until_it_ends(
    nvml_home: Path, tmp_path: Path, started: list[subprocess.Popen[str]]
):
    pid_file, looks = tmp_path / "pid", tmp_path / "looks"
    scenario = Scenario(tmp_path / "gpus.txt").gpus(2).when_registered(pid_file).seen(looks)
    target = program(started, STAYS, str(pid_file), str(looks), str(LOOKS), CUDA_VISIBLE_DEVICES="0")
    until_written(pid_file)
    watch = watching(nvml_home, scenario, "--pid", str(target.pid), "--format", "json")
    started.append(watch)
    report = report_of(watch)
    assert watch.returncode == 0
    assert report["verdict"]["outcome"] == "used"
    # Of two GPUs, the process sees one: its own variables decide.
    assert report["verdict"]["expectation"]["gpus"] == 1
    assert (report["pid"], report["exit_code"], report["command"]) == (target.pid, None, None)
    assert f"Process {target.pid} of " in report["notes"][0]
    assert "and has ended" in report["notes"][0]


def test_a_process_that_uses_no_gpu_is_exit_code_4(
    nvml_home: Path, tmp_path: Path, started: list[subprocess.Popen[str]]
):
    pid_file, looks = tmp_path / "pid", tmp_path / "looks"
    scenario = Scenario(tmp_path / "gpus.txt").gpu(0).seen(looks)
    target = program(started, STAYS, str(pid_file), str(looks), str(LOOKS))
    watch = watching(nvml_home, scenario, "--pid", str(target.pid))
    started.append(watch)
    output, errors = watch.communicate(timeout=120)
    assert watch.returncode == 4, errors
    assert "No process of the job opened a GPU." in output


def test_a_time_limit_ends_the_watching_and_not_the_process(
    nvml_home: Path, tmp_path: Path, started: list[subprocess.Popen[str]]
):
    pid_file, looks = tmp_path / "pid", tmp_path / "looks"
    scenario = Scenario(tmp_path / "gpus.txt").gpu(0).when_registered(pid_file).seen(looks)
    target = program(started, STAYS, str(pid_file), str(looks), "1000000")
    until_written(pid_file)
    watch = watching(nvml_home, scenario, "--pid", str(target.pid), "--for", "2s", "--format", "json")
    started.append(watch)
    report = report_of(watch)
    assert report["verdict"]["outcome"] == "used"
    assert "and still running" in report["notes"][0]
    assert target.poll() is None


def test_ctrl_c_prints_the_verdict_so_far(
    nvml_home: Path, tmp_path: Path, started: list[subprocess.Popen[str]]
):
    pid_file, looks = tmp_path / "pid", tmp_path / "looks"
    scenario = Scenario(tmp_path / "gpus.txt").gpu(0).when_registered(pid_file).seen(looks)
    target = program(started, STAYS, str(pid_file), str(looks), "1000000")
    until_written(pid_file)
    watch = watching(nvml_home, scenario, "--pid", str(target.pid), "--format", "json")
    started.append(watch)
    while looks.stat().st_size < LOOKS:
        time.sleep(0.02)
    watch.send_signal(signal.SIGINT)
    report = report_of(watch)
    assert (watch.returncode, report["verdict"]["outcome"]) == (0, "used")
    assert target.poll() is None


def test_a_gpu_that_was_in_use_before_is_unknown_if_nvml_lists_no_process(
    nvml_home: Path, tmp_path: Path, started: list[subprocess.Popen[str]]
):
    """In a container, NVML lists no process: memory that was taken before says nothing about whose it is."""
    pid_file, looks = tmp_path / "pid", tmp_path / "looks"
    scenario = Scenario(tmp_path / "gpus.txt").gpu(0).seen(looks)
    scenario.when_registered(pid_file, visible=False)
    target = program(started, STAYS, str(pid_file), str(looks), "1000000")
    until_written(pid_file)
    # A younger process cannot have opened a GPU yet: importing a framework takes longer.
    while (facts := read_facts(target.pid)) is not None and facts.age < 1.5:
        time.sleep(0.1)
    watch = watching(nvml_home, scenario, "--pid", str(target.pid), "--for", "2s", "--format", "json")
    started.append(watch)
    report = report_of(watch)
    verdict = report["verdict"]
    assert "GPU 0 was 90% busy on average while it was used" in report["notes"][1]
    # Not "no work": the GPU worked, and it is unknown for whom.
    assert verdict["outcome"] == "unknown"
    assert "it was in use when monitoring began" in verdict["reason"]
    assert watch.returncode == 0


def test_on_a_terminal_it_says_that_it_waits(
    nvml_home: Path, tmp_path: Path, started: list[subprocess.Popen[str]]
):
    target = program(started, "import time; time.sleep(600)")
    scenario = Scenario(tmp_path / "gpus.txt").gpu(0).write()
    terminal = Terminal(
        [sys.executable, "-m", "gpuproof", "watch", "--pid", str(target.pid)],
        {**os.environ, SCENARIO_VARIABLE: str(scenario.path), "LD_LIBRARY_PATH": str(nvml_home)},
    )
    terminal.expect(
        f"gpuproof: watching process {target.pid} until the end. Ctrl-C prints what is known so far."
    )
    terminal.send("\x03")
    terminal.expect("verdict")
    assert terminal.wait() == 4


def test_orphans_of_a_process_stay_watched(
    nvml_home: Path, tmp_path: Path, started: list[subprocess.Popen[str]]
):
    pid_file, looks = tmp_path / "pid", tmp_path / "looks"
    scenario = Scenario(tmp_path / "gpus.txt").gpu(0).seen(looks)
    scenario.when_registered(pid_file)
    scenario.write()
    target = program(started, ORPHANS, STAYS, str(pid_file), str(looks), "16")
    until_written(pid_file)
    watch = watching(nvml_home, scenario, "--pid", str(target.pid), "--format", "json")
    started.append(watch)
    verdict = report_of(watch)["verdict"]
    gpu = verdict["gpus"][0]
    assert verdict["outcome"] == "used"
    assert gpu["judged_by"] == "processes"
    # The worker was an orphan for most of the time, and its work counts.
    assert gpu["held_s"] > 0.7 * verdict["seconds"]
    assert not gpu["others_present"]


def test_several_processes_count_as_one_program_until_the_last_ends(
    nvml_home: Path, tmp_path: Path, started: list[subprocess.Popen[str]]
):
    looks = tmp_path / "looks"
    scenario = Scenario(tmp_path / "gpus.txt").gpus(3).seen(looks)
    targets: list[subprocess.Popen[str]] = []
    for number, count in ((0, LOOKS), (1, LOOKS + 4)):
        pid_file = tmp_path / f"pid-{number}"
        scenario.when_registered(pid_file, number)
        visible = {"CUDA_VISIBLE_DEVICES": str(number)}
        targets.append(program(started, STAYS, str(pid_file), str(looks), str(count), **visible))
        until_written(pid_file)
    pids = [word for target in targets for word in ("--pid", str(target.pid))]
    watch = watching(nvml_home, scenario, *pids, "--format", "json")
    started.append(watch)
    report = report_of(watch)
    assert targets[1].wait(300) == 0
    assert report["verdict"]["reason"].startswith("2 of 2 GPUs worked")
    assert report["verdict"]["expectation"]["because"] == "CUDA_VISIBLE_DEVICES=0,1"
    assert [note.split(" of ")[0] for note in report["notes"]] == [f"Process {each.pid}" for each in targets]


def test_processes_that_cannot_be_watched_are_an_error_of_one_line(
    nvml_home: Path, tmp_path: Path, started: list[subprocess.Popen[str]]
):
    scenario = Scenario(tmp_path / "gpus.txt").gpu(0)
    ended = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)  # a zombie until it is waited for
    for pid, code, message in (
        (ended.pid, 1, f"gpuproof: Process {ended.pid} ended before watching began.\n"),
        (2**22 + 1, 2, f"gpuproof: No process has the id {2**22 + 1}. "),
        (-1, 2, "gpuproof: No process has the id -1. "),
    ):
        watch = watching(nvml_home, scenario, f"--pid={pid}")
        started.append(watch)
        output, errors = watch.communicate(timeout=300)
        assert (watch.returncode, output) == (code, ""), errors
        assert errors.startswith(message)
    ended.wait()


def test_a_process_of_another_user_is_watched(
    nvml_home: Path, tmp_path: Path, started: list[subprocess.Popen[str]]
):
    if os.geteuid() != 0:
        pytest.skip("only root can start a process of another user")
    target = subprocess.Popen(["sleep", "600"], user=65534, env={"CUDA_VISIBLE_DEVICES": "1"}, text=True)
    started.append(target)
    scenario = Scenario(tmp_path / "gpus.txt").gpus(2)
    scenario.at(0, 1, util=80, memory_mib=3000, processes={target.pid: 3000})
    watch = watching(nvml_home, scenario, "--pid", str(target.pid), "--for", "2s", "--format", "json")
    started.append(watch)
    report = report_of(watch)
    assert report["verdict"]["outcome"] == "used"
    assert report["verdict"]["expectation"]["because"] == "CUDA_VISIBLE_DEVICES=1"
    assert f"Process {target.pid} of nobody" in report["notes"][0]


def test_the_report_has_the_instance(nvml_home: Path, tmp_path: Path, started: list[subprocess.Popen[str]]):
    service_paths = {"meta-data/instance-type": "g5.xlarge", "meta-data/placement/region": "eu-west-1"}
    target = program(started, "import time; time.sleep(600)")
    scenario = Scenario(tmp_path / "gpus.txt").gpu(0)
    with MetadataService(service_paths) as service:
        watch = watching(
            nvml_home,
            scenario,
            *("--pid", str(target.pid), "--for", "2s", "--format", "json", "--no-require-gpu"),
            AWS_EC2_METADATA_SERVICE_ENDPOINT=service.url,
        )
        started.append(watch)
        assert report_of(watch)["instance"]["type"] == "g5.xlarge"


def test_a_kernel_without_pidfds_is_asked_twice_a_second(
    started: list[subprocess.Popen[str]], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delattr(os, "pidfd_open")
    target = program(started, "import time; time.sleep(2)")
    reports: list[WatchReport] = []
    watch_processes([target.pid], WatchSettings(), reports.append)
    target.wait()
    assert "and has ended" in reports[0].notes[0]


def test_a_thread_is_no_process(nvml_home: Path, tmp_path: Path, started: list[subprocess.Popen[str]]):
    code = """
import os, sys, threading, time
def work():
    open(sys.argv[1] + ".new", "w").write(str(threading.get_native_id()))
    os.rename(sys.argv[1] + ".new", sys.argv[1])
    time.sleep(600)
threading.Thread(target=work).start()
"""
    target = program(started, code, str(tmp_path / "tid"))
    until_written(tmp_path / "tid")
    thread = (tmp_path / "tid").read_text()
    watch = watching(nvml_home, Scenario(tmp_path / "gpus.txt").gpu(0), "--pid", thread)
    started.append(watch)
    _, errors = watch.communicate(timeout=300)
    assert watch.returncode == 2
    assert f"{thread} is a thread of process {target.pid}" in errors


def test_a_command_and_a_process_exclude_each_other(nvml_home: Path, tmp_path: Path):
    watch = watching(nvml_home, Scenario(tmp_path / "gpus.txt").gpu(0), "--pid", "1", "--", "true")
    _, errors = watch.communicate(timeout=300)
    assert watch.returncode == 2
    assert "leave out the command" in errors


@pytest.mark.parametrize(
    ("environments", "visible"),
    [
        ([{"CUDA_VISIBLE_DEVICES": "0"}, {"CUDA_VISIBLE_DEVICES": "1,0"}], "0,1"),
        ([{"CUDA_VISIBLE_DEVICES": "0"}, {}], None),
        ([{"CUDA_VISIBLE_DEVICES": ""}], ""),
    ],
)
def test_processes_that_count_as_one_see_what_any_of_them_sees(
    environments: list[dict[str, str]], visible: str | None
):
    assert common_environment(environments).get("CUDA_VISIBLE_DEVICES") == visible


@pytest.mark.parametrize(
    ("given", "visible", "devices"),
    [
        ("all", "1", "1"),
        ("all", None, None),
        ("GPU-a,GPU-b", None, "GPU-a,GPU-b"),
        ("GPU-a,GPU-b", "1", "GPU-b"),
        ("2,3", "0", "2"),
        ("2,3", "GPU-c", "GPU-c"),
        ("void", None, ""),
    ],
)
def test_the_gpus_of_a_container_are_those_of_the_host(given: str, visible: str | None, devices: str | None):
    environment = {"NVIDIA_VISIBLE_DEVICES": given}
    if visible is not None:
        environment["CUDA_VISIBLE_DEVICES"] = visible
    assert host_devices(environment) == devices
