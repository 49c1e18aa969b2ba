"""`gpuproof watch` on a real terminal: programs look and behave as without it."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.cli_sandbox import until
from support.nvml_stub import SCENARIO_VARIABLE, Scenario
from watch.terminal import Terminal

WATCH = (sys.executable, "-m", "gpuproof", "watch", "--no-require-gpu")
BARS = """
import sys, time
for step in range(40):
    sys.stderr.write(f"\\r{step + 1:3d}/40 \\x1b[32m{'#' * step}\\x1b[0m")
    sys.stderr.flush()
    time.sleep(0.02)
sys.stderr.write("\\n")
print("end")
"""
Starter = Callable[..., Terminal]


def without_line(output: bytes) -> bytes:
    """Output without the line and what erases it."""
    return re.sub(rb"\x1b\[2m[^\r]*\x1b\[0m\x1b\[K\r|\r\x1b\[K", b"", output)


pytestmark = pytest.mark.slow


@pytest.fixture
def environment(nvml_home: Path, tmp_path: Path) -> dict[str, str]:
    """Variables of a user on a terminal, on a machine with one GPU."""
    scenario = Scenario(tmp_path / "gpus.txt").gpu(0).when_registered(tmp_path / "pid").write()
    variables = {
        **os.environ,
        SCENARIO_VARIABLE: str(scenario.path),
        "LD_LIBRARY_PATH": str(nvml_home),
        "TERM": "xterm-256color",
        "PS1": "prompt> ",
    }
    for name in ("CI", "NO_COLOR", "PROMPT_COMMAND"):
        variables.pop(name, None)
    return variables


@pytest.fixture
def start(environment: dict[str, str]) -> Iterator[Starter]:
    """Starts programs on terminals, which are closed at the end."""
    with contextlib.ExitStack() as terminals:

        def started(*command: str, **size: int) -> Terminal:
            terminal = Terminal(command, environment, **size)
            terminals.callback(terminal.close)
            return terminal

        yield started


def test_the_line_is_below_the_output_and_is_erased_before_more(start: Starter):
    terminal = start(*WATCH, "--", "sh", "-c", "echo one; read word; echo got $word")
    terminal.expect(r"one\r\n\x1b\[2m[^\r]*GPU 0 [^\r]*\r")
    terminal.send("two\n")
    terminal.expect(r"\r\x1b\[Ktwo\r\ngot two\r\n")
    assert terminal.wait() == 0


def test_the_command_has_a_terminal_of_the_same_size_and_modes(start: Starter):
    bare = start("stty", "-a", rows=33, columns=77)
    assert bare.wait() == 0
    watched = start(*WATCH, "--", "stty", "-a", rows=33, columns=77)
    assert watched.wait() == 0
    assert b"rows 33; columns 77" in bare.output
    assert watched.output.startswith(bare.output)


def test_a_change_of_the_windows_size_reaches_the_command(start: Starter):
    script = "trap 'stty size; ended=1' WINCH; echo ready; until [ $ended ]; do sleep 0.05; done"
    terminal = start(*WATCH, "--", "bash", "-c", script)
    terminal.expect("ready")
    terminal.resize(41, 91)
    terminal.expect("41 91")
    assert terminal.wait() == 0


def test_a_password_is_not_echoed(start: Starter):
    code = "import getpass; print('was', getpass.getpass('Password: '))"
    terminal = start(*WATCH, "--", sys.executable, "-c", code)
    terminal.expect("Password: ")
    terminal.send("sesame\n")
    terminal.expect("was sesame")
    assert terminal.wait() == 0
    assert terminal.output.count(b"sesame") == 1


def test_a_line_editor_gets_every_key(start: Starter):
    terminal = start(*WATCH, "--", sys.executable, "-q", "-i", "-c", "")
    terminal.expect(">>> ")
    terminal.send("6 * 8\x1b[D\x7f7\n")  # left, backspace: 6 *78
    terminal.expect("468")
    terminal.expect(">>> ")
    terminal.send(b"\x04")
    assert terminal.wait() == 0


def test_end_of_file_reaches_the_command(start: Starter):
    terminal = start(*WATCH, "--", "cat")
    terminal.expect("GPU 0")
    terminal.send("last words\n")
    terminal.expect("last words\r\nlast words\r\n")
    terminal.send(b"\x04")
    assert terminal.wait() == 0


def test_a_progress_bar_is_never_interrupted_by_the_line(start: Starter):
    bare = start(sys.executable, "-c", BARS)
    assert bare.wait() == 0
    watched = start(*WATCH, "--", sys.executable, "-c", BARS)
    assert watched.wait() == 0
    assert bare.output in without_line(watched.output)


@pytest.mark.skipif(shutil.which("vim") is None, reason="there is no vim")
def test_an_editor_keeps_the_screen_for_itself(start: Starter, tmp_path: Path):
    file = tmp_path / "text"
    terminal = start(*WATCH, "--", "vim", "-u", "NONE", "-i", "NONE", str(file))
    terminal.expect(r"\x1b\[\?1049h")
    terminal.expect("~")
    terminal.send("iwords\x1b:wq\r")
    screen = terminal.expect(r"\[New File\] 1 line.*?\x1b\[\?1049l")
    assert terminal.wait() == 0
    assert file.read_text() == "words\n"
    assert b"GPU 0" not in screen.group()


def test_all_output_arrives_in_order(start: Starter):
    code = "import sys; sys.stdout.write(''.join(f'{n}\\n' for n in range(100_000)))"
    terminal = start(*WATCH, "--", sys.executable, "-c", code)
    assert terminal.wait() == 0
    lines = "".join(f"{number}\r\n" for number in range(100_000)).encode()
    assert lines in without_line(terminal.output)


def test_every_byte_passes_in_both_directions(start: Starter):
    code = (
        "import os, tty; tty.setraw(0); os.write(1, b'ready'); got = b''\n"
        "while len(got) < 256: got += os.read(0, 256)\n"
        "os.write(1, got); os.write(1, b'bye')"
    )
    terminal = start(*WATCH, "--", sys.executable, "-c", code)
    terminal.expect("ready")
    terminal.send(bytes(range(256)))
    terminal.expect("bye")
    assert terminal.wait() == 0
    assert bytes(range(256)) in terminal.output


@pytest.mark.parametrize(("key", "number"), [(b"\x03", 2), (b"\x1c", 3)])
def test_keys_send_signals(start: Starter, key: bytes, number: int):
    terminal = start(*WATCH, "--", "sleep", "1000")
    terminal.expect("GPU 0")
    terminal.send(key)
    assert terminal.wait() == -number


def test_a_signal_of_a_key_arrives_once(start: Starter):
    script = "trap 'echo caught' INT; echo ready; while read word; do echo $word; done"
    terminal = start(*WATCH, "--", "bash", "-c", script)
    terminal.expect("ready")
    terminal.send(b"\x03")
    terminal.expect("caught")
    terminal.send("word\n")
    terminal.expect("word\r\n")
    terminal.send(b"\x04")
    assert terminal.wait() in (0, 1)
    assert terminal.output.count(b"caught") == 1


def test_the_modes_of_the_terminal_are_restored(start: Starter):
    terminal = start("bash", "--norc", "-i")
    terminal.expect("prompt> ")
    terminal.send(" ".join([*WATCH, "--", "sh", "-c", "'stty -echo raw; kill -9 $$'"]) + "\n")
    terminal.expect("processes.*prompt> ")
    terminal.send("stty -a\n")
    terminal.expect(r" icanon .* echo ")
    terminal.send("exit\n")
    terminal.wait()


def test_the_modes_are_restored_also_after_a_prefix_that_is_killed(start: Starter):
    watched = " ".join([*WATCH, "--", "sh", "-c", "'echo leader $PPID command $$; exec sleep 1000'"])
    looks = "until stty -a | grep -q ' icanon'; do sleep 0.05; done; echo restored"
    # A shell that is not interactive restores no modes itself.
    terminal = start("sh", "-c", f"{watched}; {looks}")
    leader, command = map(int, terminal.expect(r"leader (\d+) command (\d+)").groups())
    prefix = int(Path(f"/proc/{leader}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(prefix, signal.SIGKILL)
    terminal.expect("restored")
    assert terminal.wait() == 0
    until(lambda: not Path(f"/proc/{command}").exists(), "the end of the command")


@pytest.mark.parametrize("flags", [(), ("--no-live",)])
def test_job_control_suspends_and_continues_the_whole(start: Starter, flags: tuple[str, ...]):
    terminal = start("bash", "--norc", "-i")
    terminal.expect("prompt> ")
    terminal.send(" ".join([*WATCH, *flags, "--", "sh", "-c", "'echo ready; exec cat'"]) + "\n")
    terminal.expect("ready\r\n")
    terminal.send("before\n")
    terminal.expect("before\r\nbefore\r\n")
    terminal.send(b"\x1a")
    terminal.expect(r"Stopped.*prompt> ")
    terminal.send("echo in the shell\n")
    terminal.expect("in the shell\r\n.*prompt> ")
    terminal.send("fg\n")
    terminal.expect("exec cat'\r\n")
    terminal.send("after\n")
    terminal.expect("after\r\nafter\r\n")
    terminal.send(b"\x04")
    terminal.expect("processes.*prompt> ")
    terminal.send("exit\n")
    terminal.wait()


def test_job_control_works_where_no_standard_stream_is_the_terminal(start: Starter, tmp_path: Path):
    ready = tmp_path / "ready"
    terminal = start("bash", "--norc", "-i")
    terminal.expect("prompt> ")
    # Without a child: a Ctrl-Z between its vfork(2) and its execution stops the child only, and its parent waits for it.
    script = f"': >{ready}; exec sleep 1000'"
    terminal.send(
        " ".join([*WATCH, "--", "sh", "-c", script, "</dev/null", f">{tmp_path}/log", "2>&1"]) + "\n"
    )
    until(ready.exists, "the start")
    terminal.send(b"\x1a")
    terminal.expect(r"Stopped.*prompt> ")
    terminal.send("fg\n")
    terminal.expect("sleep 1000")
    terminal.send_until(b"\x03", "prompt> ")
    terminal.send("exit\n")
    terminal.wait()


def test_a_command_goes_on_in_the_background(start: Starter):
    terminal = start("bash", "--norc", "-i")
    terminal.expect("prompt> ")
    script = "'echo ready; read word; echo got $word; read word; echo got $word'"
    terminal.send(" ".join([*WATCH, "--", "bash", "-c", script]) + "\n")
    terminal.expect("ready\r")
    terminal.send("one\n")
    terminal.expect("got one")
    terminal.send(b"\x1a")
    terminal.expect(r"Stopped.*prompt> ")
    terminal.send("bg\n")
    terminal.expect("prompt> ")
    terminal.send("echo $((6 * 7))\n")
    terminal.expect("42")
    terminal.send("fg\n")
    terminal.expect("watch")
    terminal.expect("GPU 0")
    terminal.send("two\n")
    terminal.expect("got two")
    terminal.send("exit\n")
    terminal.wait()


def test_the_line_is_shown_again_although_something_was_written_while_the_command_was_stopped(
    start: Starter, tmp_path: Path
):
    """As the kernel does, whose echo of Ctrl-Z may come after the command has stopped."""
    go, done = tmp_path / "go", tmp_path / "done"
    writes = f"while [ ! -e {go} ]; do sleep 0.05; done; printf late; touch {done}"
    terminal = start("bash", "--norc", "-i")
    terminal.expect("prompt> ")
    script = f"\"setsid sh -c '{writes}' & echo ready; read word; echo got \\$word\""
    terminal.send(" ".join([*WATCH, "--", "bash", "-c", script]) + "\n")
    terminal.expect("ready\r")
    terminal.expect("GPU 0")
    terminal.send(b"\x1a")
    terminal.expect(r"Stopped.*prompt> ")
    go.touch()
    until(done.exists, "the other process has not written")
    terminal.send("fg\n")
    terminal.expect("late")
    terminal.expect("GPU 0")
    terminal.send("two\n")
    terminal.expect("got two")
    terminal.send("exit\n")
    terminal.wait()


def test_what_runs_on_after_the_command_still_prints(start: Starter, tmp_path: Path):
    go = tmp_path / "go"
    loop = f"while [ ! -e {go} ]; do sleep 0.05; done; echo late"
    terminal = start("bash", "--norc", "-i")
    terminal.expect("prompt> ")
    terminal.send(" ".join([*WATCH, "--", "bash", "-c", f'"({loop}) & echo started"']) + "\n")
    terminal.expect("processes.*prompt> ")
    go.touch()
    terminal.expect("late\r\n")
    terminal.send("exit\n")
    terminal.wait()


@pytest.mark.skipif(
    Path("/proc/sys/dev/tty/legacy_tiocsti").exists()
    and Path("/proc/sys/dev/tty/legacy_tiocsti").read_text().strip() == "0",
    reason="the kernel does not allow it",
)
def test_what_is_typed_ahead_is_the_shells(start: Starter, tmp_path: Path):
    go = tmp_path / "go"
    terminal = start("bash", "--norc", "-i")
    terminal.expect("prompt> ")
    wait = f"'echo ready; until [ -e {go} ]; do sleep 0.05; done'"
    terminal.send(" ".join([*WATCH, "--", "sh", "-c", wait]) + "\n")
    terminal.expect("ready\r\n")
    terminal.send("echo $((6 * 7))\nexit 8")
    terminal.expect("exit 8")
    go.touch()
    terminal.expect("42\r\n")
    terminal.send("\n")
    assert terminal.wait() == 8


def test_a_terminal_that_is_closed_ends_the_command(start: Starter, tmp_path: Path):
    mark = tmp_path / "mark"
    script = f"trap 'echo hung up > {mark}; exit' HUP; echo ready; while :; do sleep 0.05; done"
    terminal = start(*WATCH, "--", "bash", "-c", script)
    terminal.expect("ready")
    terminal.hang_up()
    assert mark.read_text() == "hung up\n"
