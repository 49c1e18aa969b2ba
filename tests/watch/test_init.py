"""The agent file as process 1 of a container: a real PID namespace, and the oldest Python that it supports."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from gpuproof.backends.agent_job.archive import build_agent
from support.nvml_stub import SCENARIO_VARIABLE, Scenario
from watch.terminal import Terminal

pytestmark = pytest.mark.slow

OLDEST = sorted(Path.home().glob(".pyenv/versions/3.9.*/bin/python3.9"))
PYTHON = str(OLDEST[0]) if OLDEST else sys.executable
_AS_ROOT = () if os.geteuid() == 0 else ("--user", "--map-root-user")
NAMESPACE = ("unshare", *_AS_ROOT, "--pid", "--fork", "--mount-proc", "--kill-child")
# Prints what it receives, and ends with exit code 9 at SIGUSR2.
ECHOES = """
import os, signal, sys
def received(number, frame):
    print("received", signal.Signals(number).name, flush=True)
    if number == signal.SIGUSR2:
        os._exit(9)
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGQUIT, signal.SIGWINCH):
    signal.signal(number, received)
print("ready", flush=True)
while True:
    signal.pause()
"""
ASKS = """
import os, sys, time
print("size", os.get_terminal_size().columns, sys.stdin.isatty(), flush=True)
try:
    print("hello", input("name? "), flush=True)
    # In short pieces: Python notices a signal that arrives just before a sleep only after it.
    while True:
        time.sleep(0.05)
except KeyboardInterrupt:
    print("interrupted", flush=True)
    sys.exit(3)
"""
# Leaves a hundred orphans behind that end, waits until no zombie is left, and says how many processes there are.
ZOMBIES = """
import os, time
for _ in range(100):
    if os.fork() == 0:
        if os.fork() == 0:
            time.sleep(0.1)
        os._exit(0)
    os.wait()
def states():
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                found.append(open(f"/proc/{name}/stat").read().rpartition(")")[2].split()[0])
            except OSError:
                pass
    return found
while len(states()) > 3:
    time.sleep(0.05)
print("processes", len(states()), "zombies", states().count("Z"))
"""
# Two daemons: one ends at SIGTERM and says so, the other ignores it.
DAEMONS = """
import os, signal, sys, time
folder = sys.argv[1]
for name in ("ends", "ignores"):
    if os.fork() == 0:
        os.setsid()
        def end(number, frame):
            open(f"{folder}/{name}-ended", "w").close()
            os._exit(0)
        signal.signal(signal.SIGTERM, end if name == "ends" else signal.SIG_IGN)
        open(f"{folder}/{name}", "w").close()
        while True:
            time.sleep(60)
while not all(os.path.exists(f"{folder}/{name}") for name in ("ends", "ignores")):
    time.sleep(0.02)
sys.exit(3)
"""


@pytest.fixture(scope="session")
def agent_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The agent as one file; skips where no PID namespace is allowed."""
    if subprocess.run([*NAMESPACE, "true"], capture_output=True).returncode != 0:
        pytest.skip("this host allows no PID namespace: unshare --pid --fork --mount-proc")
    built = tmp_path_factory.mktemp("agent") / "gpuproof-agent.pyz"
    build_agent(built)
    return built


class Container:
    """A container without Docker: a PID namespace whose process 1 is the agent file."""

    def __init__(self, agent_file: Path, environment: dict[str, str]) -> None:
        self._agent = agent_file
        self.environment = environment
        self.processes: list[subprocess.Popen[str]] = []
        self.watchdogs: list[threading.Timer] = []

    def command(self, *words: str) -> Sequence[str]:
        return [*NAMESPACE, PYTHON, str(self._agent), "watch", *words]

    def start(self, *words: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            self.command(*words),
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
        )
        self.processes.append(process)
        # A test that waits for a line must not wait forever.
        watchdog = threading.Timer(120, process.kill)
        watchdog.daemon = True
        watchdog.start()
        self.watchdogs.append(watchdog)
        return process

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        process = self.start(*words)
        output, errors = process.communicate(timeout=120)
        return subprocess.CompletedProcess(process.args, process.returncode, output, errors)

    @staticmethod
    def first(process: subprocess.Popen[str]) -> int:
        """The id that process 1 has on the host."""
        while not (children := _children(process.pid)):
            assert process.poll() is None
            time.sleep(0.02)
        return children[0]


def _children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.fixture
def container(agent_file: Path) -> Iterator[Container]:
    made = Container(agent_file, {name: value for name, value in os.environ.items() if name != "PYTHONPATH"})
    yield made
    for watchdog in made.watchdogs:
        watchdog.cancel()
    for process in made.processes:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("code", [0, 7])
def test_the_exit_code_is_the_commands(container: Container, code: int):
    ended = container.run("--no-require-gpu", "--", "sh", "-c", f"echo $$ is not 1; exit {code}")
    assert ended.returncode == code, ended.stderr
    assert ended.stdout.endswith("is not 1\n")
    assert not ended.stdout.startswith("1 ")
    assert "The job ran on the CPU only." in " ".join(ended.stderr.split())


def test_a_signal_that_kills_the_command_is_128_and_its_number(container: Container):
    ended = container.run("--", "sh", "-c", "kill -KILL $$")
    assert ended.returncode == 128 + signal.SIGKILL


def test_a_required_gpu_that_did_no_work_is_exit_code_4(
    agent_file: Path, nvml_home: Path, tmp_path: Path, container: Container
):
    scenario = Scenario(tmp_path / "gpus.txt").gpu(0).write()
    container.environment |= {SCENARIO_VARIABLE: str(scenario.path), "LD_LIBRARY_PATH": str(nvml_home)}
    ended = container.run("--", "true")
    assert ended.returncode == 4
    assert "No process of the job opened a GPU." in ended.stderr


def test_a_command_that_cannot_be_started_is_127(container: Container):
    ended = container.run("--", "no-such-command")
    assert ended.returncode == 127


def test_signals_to_process_1_reach_the_command(container: Container):
    process = container.start("--no-require-gpu", "--", PYTHON, "-c", ECHOES)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    first = container.first(process)
    for name in ("SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1", "SIGQUIT", "SIGUSR2"):
        # As `docker kill --signal` and `docker stop` do: from outside, to process 1 alone.
        os.kill(first, getattr(signal, name))
        assert process.stdout.readline() == f"received {name}\n"
    assert process.wait(300) == 9


@pytest.mark.parametrize("session", [(), ("setsid", "--ctty")], ids=["of a shell", "of process 1"])
def test_docker_run_with_a_terminal_is_as_without_the_watch(container: Container, session: tuple[str, ...]):
    if session and os.geteuid() != 0:
        pytest.skip("only root takes a terminal from another session")
    command = [*container.command("--no-require-gpu", "--", PYTHON, "-c", ASKS)]
    command[len(NAMESPACE) : len(NAMESPACE)] = session
    terminal = Terminal(command, container.environment, columns=90)
    terminal.expect("size 90 True")
    terminal.expect(r"name\? ")
    terminal.send("ada\n")
    terminal.expect("hello ada")
    # Nothing could continue a container that Ctrl-Z stops.
    terminal.send("\x1a\x03")
    terminal.expect("interrupted")
    assert terminal.wait() == 3


def test_a_command_without_a_handler_ends_at_sigterm(container: Container):
    """As process 1 itself it would not: the kernel discards the signal, and `docker stop` takes 10 s."""
    process = container.start("--", "sh", "-c", "echo ready; sleep 600 & wait")
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    os.kill(container.first(process), signal.SIGTERM)
    assert process.wait(300) == 128 + signal.SIGTERM


def test_orphans_leave_no_zombies(container: Container):
    ended = container.run("--no-require-gpu", "--", PYTHON, "-c", ZOMBIES)
    # Process 1, the one that watches, and the command.
    assert ended.stdout == "processes 3 zombies 0\n", ended.stderr


def test_everything_ends_with_the_command(container: Container, tmp_path: Path):
    ended = container.run("--no-require-gpu", "--", PYTHON, "-c", DAEMONS, str(tmp_path))
    assert ended.returncode == 3, ended.stderr
    # SIGTERM first, which one of them takes; the other is killed, or else the namespace would not have ended.
    assert (tmp_path / "ends-ended").exists()
    assert (tmp_path / "ignores").exists()


def test_the_verdict_is_the_termination_message(container: Container, tmp_path: Path):
    log = tmp_path / "termination-log"
    log.write_text("the program's own last words")
    ended = container.run("--termination-message", str(log), "--", "true")
    assert ended.returncode == 4
    own, message, *_ = log.read_text().split("\n")
    assert own == "the program's own last words"
    assert message == (
        "gpuproof: cpu-only: No usable GPU: the NVIDIA driver is not installed. The job ran on the CPU only."
    )


def test_without_kubernetes_a_termination_message_is_a_warning(container: Container, tmp_path: Path):
    missing = tmp_path / "no-log"
    ended = container.run("--no-require-gpu", "--termination-message", str(missing), "--", "true")
    assert ended.returncode == 0
    assert f"{missing} could not be written: No such file or directory." in ended.stderr
    assert not missing.exists()


def test_the_pods_of_an_indexed_job_have_one_verdict(container: Container, tmp_path: Path):
    reports = tmp_path / "reports"
    reports.mkdir()
    container.environment |= {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}
    pods: list[subprocess.Popen[str]] = []
    for index in range(2):
        container.environment |= {"JOB_COMPLETION_INDEX": str(index), "HOSTNAME": f"train-{index}"}
        pods.append(container.start("--no-require-gpu", f"--to={reports}", "--hosts=2", "--", "sleep", "1"))
    errors = [pod.communicate(timeout=120)[1] for pod in pods]
    assert [pod.returncode for pod in pods] == [0, 0], errors
    assert sum("all 2 hosts" in text for text in errors) == 1, errors
