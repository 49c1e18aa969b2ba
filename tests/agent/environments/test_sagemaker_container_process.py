"""The agent as a container's process: signals, orphans, output, users, disks."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.cli_sandbox import gone, until
from support.nvml_stub import STAYS, Scenario, build_library

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from conftest import Container

PID_NAMESPACES = (
    subprocess.run(["unshare", "--pid", "--fork", "--mount-proc", "true"], capture_output=True).returncode
    == 0
)
SYSTEM_PYTHON = Path("/usr/bin/python3")
first_process = pytest.mark.skipif(not PID_NAMESPACES, reason="this host allows no process namespaces")
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root can do that here")

# Reports that it is running, and saves on SIGTERM.
OBEDIENT = """
import signal, sys, time
def stop(number, frame):
    open("/opt/ml/checkpoints/saved", "w").write(str(number))
    sys.exit({code})
signal.signal(signal.SIGTERM, stop)
open("/opt/ml/output/data/ready", "w")
time.sleep(600)
"""
STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open("/opt/ml/output/data/ready", "w")
time.sleep(600)
"""


def agent_of(process: subprocess.Popen[bytes]) -> int:
    """The agent's process id as this machine sees it: `unshare` stands before it where it is process 1."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    command = Path(f"/proc/{process.pid}/cmdline").read_bytes()
    return int(children[0]) if command.startswith(b"unshare") else process.pid


def ready(container: Container) -> None:
    until((container.ml / "output/data/ready").exists, "the script's start")


@pytest.mark.parametrize("first", [False, pytest.param(True, marks=first_process)])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_reaches_the_script_and_its_code_is_the_containers(
    container: Container, number: signal.Signals, first: bool
) -> None:
    container.sagemaker()
    container.send({"train.py": OBEDIENT.format(code=3)})
    process = container.start(first=first)
    ready(container)
    os.kill(agent_of(process), number)
    done = container.end(process)
    assert done.code == 3
    assert (container.ml / "checkpoints/saved").read_text() == "15"
    assert container.run["status"] == "Stopped"
    assert done.verdict["outcome"] == "no-gpu-expected"


def test_a_script_that_saves_and_exits_with_0_when_stopped_has_not_failed(container: Container) -> None:
    container.sagemaker()
    container.send({"train.py": OBEDIENT.format(code=0)})
    process = container.start()
    ready(container)
    process.terminate()
    assert container.end(process).code == 0


@pytest.mark.parametrize("first", [False, pytest.param(True, marks=first_process)])
def test_a_script_that_ignores_the_stop_is_killed_in_time(container: Container, first: bool) -> None:
    container.sagemaker()
    container.send({"train.py": STUBBORN}, stop_grace=0.5)
    process = container.start(first=first)
    ready(container)
    os.kill(agent_of(process), signal.SIGTERM)
    done = container.end(process)
    assert done.code == 137
    assert "the script did not end within 0.5 s of SIGTERM" in done.stderr
    assert container.run["status"] == "Stopped"


def test_sagemakers_own_patience_bounds_the_jobs(container: Container) -> None:
    from gpuproof.agent.environments.sagemaker_job import ContainerConfig, adapt_job
    from gpuproof.agent.job import AgentJob
    from gpuproof.agent.paths import ContainerPaths

    job = AgentJob("a-1", "a", "training", "a.py", "python3", "/c", stop_grace=900)
    assert adapt_job(job, ContainerConfig(), ContainerPaths(container.folder, container.ml)).stop_grace < 120


def test_a_stop_while_requirements_are_installed_ends_it(container: Container) -> None:
    setup = "import time; open('/opt/ml/output/data/ready', 'w'); time.sleep(600)"
    container.sagemaker()
    container.send(
        {
            "train.py": "print('started')",
            "requirements.txt": "--no-index\n./slow\n",
            "slow/setup.py": setup,
            "slow/pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "setup"\nbackend-path = ["."]\n',
        }
    )
    process = container.start()
    ready(container)
    process.terminate()
    done = container.end(process)
    assert done.code == 1
    assert "stopped before the script was started" in done.stderr
    assert container.run["status"] == "Stopped"


@first_process
def test_process_1_leaves_no_zombies_and_nothing_behind(container: Container) -> None:
    # One orphan ends at once, another is a session of its own that would outlive everybody.
    container.sagemaker()
    container.send(
        {
            "train.py": """
import os, subprocess, time
# The pipe is held until the orphan has ended.
said = subprocess.run(["sh", "-c", "(sleep 0.1; exit 0) & echo $!"], stdout=subprocess.PIPE).stdout
left = subprocess.Popen(["setsid", "sh", "-c", "sleep 600 & wait"])
end = time.monotonic() + 300
while os.path.exists(f"/proc/{int(said)}") and time.monotonic() < end:
    time.sleep(0.02)
print(open("/proc/1/cmdline").read().split("\\0")[1].endswith("gpuproof-agent.pyz"), time.monotonic() < end)
"""
        }
    )
    process = container.start(first=True)
    done = container.end(process)
    assert done.lines == ["True True"], done.stderr
    assert done.code == 0


@first_process
def test_orphans_from_outside_of_the_script_are_collected_by_process_1(container: Container) -> None:
    container.sagemaker()
    container.send(
        {
            "train.py": "import time\nopen('/opt/ml/output/data/ready', 'w')\n"
            "import os\nwhile not os.path.exists('/opt/ml/output/data/go'): time.sleep(0.02)\n"
            "print(sorted(open(f'/proc/{p}/stat').read().rsplit(')', 1)[1].split()[0]"
            " for p in os.listdir('/proc') if p.isdigit()).count('Z'))"
        }
    )
    process = container.start(first=True)
    ready(container)
    inside = ["nsenter", "-t", str(agent_of(process)), "-p", "-m"]
    subprocess.run([*inside, "sh", "-c", "(sleep 0.2; exit 0) & exit 0"], check=True)
    until(lambda: not zombies_below(agent_of(process)), "the end of the orphan")
    (container.ml / "output/data/go").touch()
    assert container.end(process).lines == ["0"]


def zombies_below(pid: int) -> list[str]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    # The reaper is the agent's only child of its own.
    return [output for output in map(stat, children) if "sleep" in output or "(sh)" in output]


def stat(pid: str) -> str:
    """The status of a process in /proc; empty for one that has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""


def test_what_the_script_leaves_running_ends_with_it(container: Container) -> None:
    container.sagemaker()
    container.send(
        {
            "train.py": "import subprocess\np = subprocess.Popen(['setsid', 'sleep', '600'])\n"
            "print(p.pid, flush=True)"
        }
    )
    done = container.carry_out()
    assert gone(int(done.lines[0]))


def test_a_killed_agent_takes_the_script_along(container: Container) -> None:
    container.sagemaker()
    container.send(
        {
            "train.py": "import os, time\nopen('/opt/ml/output/data/.pid', 'w').write(str(os.getpid()))\n"
            "os.rename('/opt/ml/output/data/.pid', '/opt/ml/output/data/ready')\ntime.sleep(600)"
        }
    )
    process = container.start()
    ready(container)
    process.kill()
    assert gone(int((container.ml / "output/data/ready").read_text()))


def test_output_is_passed_on_byte_for_byte(container: Container) -> None:
    container.sagemaker()
    container.send(
        {
            "train.py": "import sys\nsys.stdout.buffer.write(bytes(range(256)) * 40)\nsys.stdout.flush()\n"
            "sys.stderr.buffer.write(b'\\xff\\xfe end')"
        }
    )
    done = container.carry_out()
    script, _, verdict = done.stdout.rpartition(b"\ngpuproof-verdict: ")
    assert script == bytes(range(256)) * 40 + b"\xff\xfe end"
    assert json.loads(verdict)["outcome"] == "no-gpu-expected"


def test_many_lines_a_second_all_arrive(container: Container) -> None:
    container.sagemaker()
    container.send({"train.py": "for n in range(200_000): print('step', n)"})
    done = container.carry_out()
    assert done.lines == [f"step {number}" for number in range(200_000)]


def test_a_line_is_passed_on_when_it_is_printed(container: Container) -> None:
    container.sagemaker()
    container.send(
        {
            "train.py": "import os, time\nprint('first')\n"
            "while not os.path.exists('/opt/ml/output/data/go'): time.sleep(0.02)"
        }
    )
    process = container.start()
    assert process.stdout is not None
    assert process.stdout.readline() == b"first\n"
    (container.ml / "output/data/go").touch()
    assert container.end(process).code == 0


def test_a_closed_standard_output_pipe_does_not_end_the_script(container: Container) -> None:
    container.sagemaker()
    container.send({"train.py": "print('x' * 500_000)\nopen('/opt/ml/model/w', 'w').write('w')"})
    readable, writable = os.pipe()
    process = container.start(stdout=writable)
    os.close(writable)
    os.close(readable)
    done = container.end(process)
    assert done.code == 0, done.stderr
    assert (container.ml / "model/w").exists()
    assert "500,001 bytes of the script's output were lost: Broken pipe" in done.stderr


def test_a_missing_standard_output_does_not_fail_the_job(container: Container) -> None:
    container.sagemaker()
    container.send({"train.py": "print('x')\nopen('/opt/ml/model/w', 'w').write('w')"})
    done = container.carry_out(closed=True)
    assert done.code == 0, done.stderr
    assert container.run["status"] == "Completed"


@root_only
def test_nothing_but_tmp_and_opt_ml_need_be_writable(container: Container) -> None:
    container.sagemaker()
    container.send(
        {
            "train.py": "open('/opt/ml/model/w', 'w').write('w')\n"
            "try: open('/etc/gpuproof-test', 'w')\nexcept OSError as e: print(e.strerror)"
        }
    )
    done = container.carry_out(read_only=True)
    assert done.lines == ["Read-only file system"], done.stderr
    assert done.code == 0


@root_only
@pytest.mark.skipif(not SYSTEM_PYTHON.exists(), reason="the system has no Python that everybody may start")
def test_a_user_without_rights_and_without_a_home_will_do(container: Container) -> None:
    container.python = str(SYSTEM_PYTHON)
    container.sagemaker()
    container.send({"train.py": "import os; print(os.getuid())"})
    for path in [container.ml, *container.ml.rglob("*")]:
        os.chown(path, 65534, 65534)
    container.environment = {"HOME": "/nonexistent"}
    done = container.carry_out(uid=65534)
    assert done.lines == ["65534"], done.stderr
    assert done.code == 0


@pytest.fixture
def small_disk(container: Container) -> Iterator[Path]:
    """Eight megabytes behind `/opt/ml`."""
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", container.ml], capture_output=True
    )
    if mounted.returncode != 0:
        pytest.skip("only root can mount a small disk")
    yield container.ml
    subprocess.run(["umount", "-l", container.ml], check=True)


def test_a_full_disk_leaves_the_verdict_in_the_log(container: Container, small_disk: Path) -> None:
    container.sagemaker()
    container.send(
        {
            "train.py": "import os\nwith open('/opt/ml/output/data/big', 'wb', 0) as file:\n"
            "    while True: file.write(os.urandom(4096))"
        }
    )
    done = container.carry_out()
    assert done.code == 1
    assert "No space left on device" in done.stderr
    assert done.verdict["outcome"] == "no-gpu-expected"


@pytest.fixture
def machine(container: Container, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Scenario:
    """GPUs that the scenario names, seen from the container."""
    scenario = Scenario(tmp_path / "gpus.txt").seen(tmp_path / "looks")
    library = build_library(tmp_path_factory.getbasetemp() / "stub")
    container.environment.update(scenario.environment(library))
    return scenario


GPU_JOB = {
    "expected_gpus": 1,
    "expected_gpu_name": "A10G",
    "expected_because": "instance_type: ml.g5.xlarge",
}


def test_a_gpu_that_worked_is_in_the_verdict(container: Container, machine: Scenario, tmp_path: Path) -> None:
    machine.gpu(0).when_registered(tmp_path / "pid", util=87, memory_mib=9000).write()
    script = STAYS.format(files=[str(tmp_path / "pid")], looks=str(tmp_path / "looks"), count=4)
    container.sagemaker()
    container.send({"train.py": script}, **GPU_JOB)
    done = container.carry_out()
    assert done.code == 0
    assert done.verdict["outcome"] == "used"
    assert done.verdict["gpus"][0]["peak_memory"] == 9000 * 2**20
    series = done.verdict["gpus"][0]["series"]
    assert 9000 * 2**20 in series["memory"]
    assert 60 in series["temperature_c"]
    first, last = done.verdict["events"]
    assert (first["kind"], last["kind"]) == ("first-use", "end")
    assert last["label"] == "the script exited with code 0"
    assert 0 <= first["seconds"] <= last["seconds"]
    assert container.run["gpu_requirement_met"] is True


def test_an_untouched_gpu_is_reported_and_the_scripts_exit_code_is_kept(
    container: Container, machine: Scenario, tmp_path: Path
) -> None:
    machine.gpu(0).write()
    container.sagemaker()
    script = STAYS.format(files=[], looks=str(tmp_path / "looks"), count=4)
    container.send({"train.py": script}, **GPU_JOB)
    done = container.carry_out()
    assert done.code == 0
    assert (done.verdict["outcome"], container.run["gpu_requirement_met"]) == ("cpu-only", False)


@pytest.mark.parametrize(("action", "status"), [("stop", "Stopped"), ("fail", "Failed")])
@pytest.mark.parametrize("code", [0, 5])
def test_an_unused_gpu_ends_the_job_with_a_message(
    container: Container, machine: Scenario, action: str, status: str, code: int
) -> None:
    machine.gpu(0).write()
    container.sagemaker()
    container.send(
        {"train.py": OBEDIENT.format(code=code)}, if_gpu_unused={"action": action, "grace": 15.0}, **GPU_JOB
    )
    done = container.carry_out()
    assert done.code == (code or 1)
    assert container.failure.startswith("[gpu-unused] no GPU did any work in the first 15 s")
    assert container.run["status"] == status
    assert container.run["stopped_for_unused_gpu"] is True
    kinds = [event["kind"] for event in done.verdict["events"]]
    assert kinds == ["gpu-unused", "failure" if action == "fail" and code else "end"]
    assert (container.ml / "checkpoints/saved").exists()


def test_a_verdict_that_is_too_long_for_a_line_goes_without_its_series() -> None:
    from gpuproof.agent.environments.sagemaker_container import LONGEST_LINE, verdict_line
    from gpuproof.agent.verdict import GpuVerdict, Verdict
    from gpuproof.gpu.telemetry import Series

    gpus = tuple(GpuVerdict(index, series=Series(1.0, (12.5,) * 30_000)) for index in range(4))
    whole = Verdict("used", "so", gpus=gpus).to_json()
    line = verdict_line(whole)
    assert len(line) < LONGEST_LINE < len(json.dumps(whole))
    read = Verdict.from_json(json.loads(line.partition(" ")[2]))
    assert [gpu.index for gpu in read.gpus] == [0, 1, 2, 3]


def test_a_line_that_is_too_long_first_loses_what_the_sensors_measured() -> None:
    from gpuproof.agent.environments.sagemaker_container import LONGEST_LINE, verdict_line
    from gpuproof.agent.verdict import GpuVerdict, Verdict
    from gpuproof.gpu.telemetry import Series

    values = (50.0,) * 10_000
    series = Series(1.0, values, memory=(9e9,) * 10_000, power_w=values, temperature_c=values)
    gpus = tuple(GpuVerdict(index, peak_memory=1 << 33, series=series) for index in range(4))
    line = verdict_line(Verdict("used", "so", gpus=gpus).to_json())
    assert len(line) < LONGEST_LINE
    read = Verdict.from_json(json.loads(line.partition(" ")[2]))
    assert [gpu.series for gpu in read.gpus] == [Series(1.0, values)] * 4
