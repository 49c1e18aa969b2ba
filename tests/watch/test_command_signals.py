"""`gpuproof watch` without a terminal: output, signals, exit codes and processes are those of the command."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

WATCH = (sys.executable, "-m", "gpuproof", "watch", "--no-require-gpu", "--")
COUNTS = """
import select, signal, sys
def received(number, frame):
    print(signal.Signals(number).name, flush=True)
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGQUIT):
    signal.signal(number, received)
print("ready", flush=True)
line = "none"
while line:
    # In short pieces: Python notices a signal that arrives just before it waits only afterwards.
    if select.select([sys.stdin], [], [], 0.05)[0]:
        line = sys.stdin.readline()
        print(line, end="", flush=True)
"""


@contextlib.contextmanager
def watched(*command: str, **options: object) -> Iterator[subprocess.Popen[bytes]]:
    """A watched command with pipes; ended at the end."""
    process = subprocess.Popen(
        [*WATCH, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options
    )
    try:
        with process:
            yield process
            process.kill()
    finally:
        process.kill()


def line_of(process: subprocess.Popen[bytes]) -> str:
    """The next line of output."""
    assert process.stdout is not None
    assert select.select([process.stdout], [], [], 60)[0], "no output"
    return process.stdout.readline().decode().strip()


def is_alive(pid: int) -> bool:
    """Whether a process runs."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def until_ended(pid: int) -> None:
    """Wait for the end of a process that is no child."""
    until = time.monotonic() + 300
    while is_alive(pid):
        assert time.monotonic() < until, "it runs on"
        time.sleep(0.01)


def run(command: Sequence[str], **options: object) -> subprocess.CompletedProcess[bytes]:
    """Run a command to its end."""
    return subprocess.run(command, capture_output=True, timeout=120, check=False, **options)


@pytest.mark.parametrize(
    "command",
    [
        ("sh", "-c", "cat; exit 3"),
        (
            sys.executable,
            "-c",
            "import os, sys; os.write(1, bytes(range(256)) * 4000); sys.stderr.write('e')",
        ),
    ],
)
def test_output_and_exit_code_are_the_same(command: tuple[str, ...]):
    given = bytes(range(256)) * 1000
    bare, through = run(command, input=given), run([*WATCH, *command], input=given)
    assert (through.returncode, through.stdout) == (bare.returncode, bare.stdout)
    assert through.stderr.startswith(bare.stderr + b"verdict")


@pytest.mark.parametrize("variables", [{}, {"LC_ALL": "C"}, {"LANG": "C.UTF-8"}])
def test_environment_and_open_files_are_the_same(variables: dict[str, str], tmp_path: Path):
    command = ["sh", "-c", r"env | grep -v '^_=\|^GPUPROOF_WATCHED_BY='; cat <&7; umask; pwd; ulimit -n"]
    (tmp_path / "seven").write_text("from 7\n")
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": os.environ.get("PYTHONPATH", ""), **variables}
    found = []
    for prefix in ([], WATCH):
        # The shell opens the file that the command finds open.
        words = ["sh", "-c", 'exec "$@" 7<seven', "sh", *prefix, *command]
        found.append(run(words, env=environment, cwd=tmp_path).stdout)
    assert found[0] == found[1]


@pytest.mark.parametrize("number", [9, 15, 11])
def test_a_command_that_a_signal_kills_ends_the_prefix_by_the_same_signal(number: int):
    assert run([*WATCH, "sh", "-c", f"kill -{number} $$"]).returncode == -number


def test_signals_of_processes_are_passed_on_once():
    with watched(sys.executable, "-c", COUNTS) as process:
        assert line_of(process) == "ready"
        for name in ("SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGQUIT"):
            process.send_signal(getattr(signal, name))
            assert line_of(process) == name
        output, _ = process.communicate(b"last\n")
        assert output == b"last\n"
        assert process.returncode == 0


def test_ignored_signals_stay_ignored():
    script = "trap '' HUP INT; exec " + " ".join(WATCH) + " sh -c 'kill -HUP $$; kill -INT $$; echo survived'"
    assert run(["sh", "-c", script]).stdout == b"survived\n"


def test_a_broken_pipe_ends_the_command():
    ended = run(
        ["bash", "-c", " ".join(WATCH) + " yes 2>errors | head -1; echo ${PIPESTATUS[0]}"], cwd="/tmp"
    )
    assert ended.stdout == b"y\n141\n"


def test_a_reader_of_standard_error_that_is_gone_changes_no_exit_code():
    script = " ".join(WATCH) + " sh -c 'sleep 1; exit 5' 2>&1 >/dev/null | true; echo ${PIPESTATUS[0]}"
    assert run(["bash", "-c", script]).stdout == b"5\n"


def test_a_parent_may_ignore_the_ends_of_its_children():
    ended = run(
        [*WATCH, "sh", "-c", "exit 5"], preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    )
    assert ended.returncode == 5


def test_a_background_process_outlives_the_command(tmp_path: Path):
    pid_file = tmp_path / "pid"
    ended = run([*WATCH, "sh", "-c", f"sleep 1000 >/dev/null 2>&1 & echo $! >{pid_file}"])
    pid = int(pid_file.read_text())
    try:
        assert ended.returncode == 0
        assert is_alive(pid)
    finally:
        os.kill(pid, signal.SIGKILL)


def test_orphans_that_end_leave_no_zombies(tmp_path: Path):
    with watched("sh", "-c", "(sh -c 'echo $$' &); cat") as process:
        orphan = int(line_of(process))
        until = time.monotonic() + 300
        while Path(f"/proc/{orphan}").exists():
            assert time.monotonic() < until, "a zombie is left"
            time.sleep(0.01)


def test_the_command_ends_with_a_prefix_that_is_killed():
    with watched("sh", "-c", "echo $$; exec cat") as process:
        pid = int(line_of(process))
        process.kill()
        until_ended(pid)


def test_a_script_without_a_first_line_runs_as_in_a_shell(tmp_path: Path):
    script = tmp_path / "script"
    script.write_text("echo from $1\n")
    script.chmod(0o755)
    assert run([*WATCH, str(script), "sh"]).stdout == b"from sh\n"


@pytest.mark.parametrize(("is_there", "code"), [(False, 127), (True, 126)])
def test_a_command_that_cannot_be_started_has_the_exit_code_of_a_shell(
    tmp_path: Path, is_there: bool, code: int
):
    command = tmp_path / "data"
    if is_there:
        command.write_text("no program")
        command.chmod(0o644)
    ended = run([*WATCH, str(command)])
    assert ended.returncode == code
    assert str(command).encode() in ended.stderr
