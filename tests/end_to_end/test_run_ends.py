"""How runs end: by themselves, by a fault, by a person."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from gpuproof.util.cgroup import create_group, end_group
from gpuproof.util.process_tree import descendants
from support.cli_sandbox import GPUPROOF, CliSandbox, gone, is_ready, until

pytestmark = pytest.mark.journey

FOREVER = "import time\nprint('ready', flush=True)\ntime.sleep(600)\n"
# A script with a child that has left its process group and session, as loader workers and servers do.
FAMILY = """
import os, subprocess, sys, time
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
print("ready", flush=True)
time.sleep(600)
"""


def killed_in_the_end(sandbox: CliSandbox, folder: Path) -> bool:
    """Whether SIGKILL came because the script had let the two minutes after SIGTERM pass."""
    return any("of SIGTERM and was killed" in note for note in sandbox.state(folder)["notes"])


def family(sandbox: CliSandbox, folder: Path) -> list[int]:
    """The agent and everything below it."""
    agent = sandbox.state(folder)["agent_pid"]
    return [agent, *descendants(agent)]


def test_a_failing_script_exits_with_1_and_its_reason(sandbox: CliSandbox) -> None:
    sandbox.write("train.py", "raise ValueError('no rows')")
    done = sandbox.gpuproof("run", "train.py")
    assert done.returncode == 1
    assert "Failed" in done.stderr
    assert "train.py exited with code 1: ValueError: no rows" in done.stderr
    folder = sandbox.newest()
    assert sandbox.state(folder)["exit_code"] == 1
    failure = (folder / "ml" / "output" / "failure").read_text()
    assert failure.startswith("ExecuteUserScriptError:\nExitCode 1\n")
    assert "ValueError: no rows" in failure


def test_the_scripts_own_exit_code_is_kept(sandbox: CliSandbox) -> None:
    sandbox.write("train.py", "raise SystemExit(42)")
    assert sandbox.run_json("train.py")["run"]["exit_code"] == 42


def test_the_scripts_own_failure_message_takes_precedence(sandbox: CliSandbox) -> None:
    sandbox.write(
        "train.py", "open('/opt/ml/output/failure', 'w').write('disk of data is bad')\nraise SystemExit(1)"
    )
    result = sandbox.run_json("train.py")
    assert "disk of data is bad" in result["run"]["failure_reason"]
    assert (Path(result["folder"]) / "ml" / "output" / "failure").read_text() == "disk of data is bad"


def test_a_script_killed_by_the_kernel_is_distinguished_from_one_that_failed(sandbox: CliSandbox) -> None:
    sandbox.write("train.py", "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)")
    result = sandbox.run_json("train.py")
    assert result["run"]["exit_code"] == 137
    assert "killed by SIGKILL" in result["run"]["failure_reason"]


def test_what_a_failed_script_saved_is_kept(sandbox: CliSandbox) -> None:
    sandbox.write("train.py", "open('/opt/ml/model/w', 'w').write('w')\nraise SystemExit(1)")
    result = sandbox.run_json("train.py")
    assert (Path(result["folder"]) / "artifacts" / "model.tar.gz").exists()


def test_when_the_agent_is_killed_the_whole_tree_dies_and_the_run_has_failed(sandbox: CliSandbox) -> None:
    sandbox.write("train.py", FAMILY)
    folder = sandbox.detached("train.py")
    until(lambda: is_ready(folder), "the script's start")
    pids = until(lambda: len(found := family(sandbox, folder)) >= 4 and found, "the whole tree")
    os.kill(pids[0], signal.SIGKILL)
    assert [pid for pid in pids if not gone(pid)] == []
    listed = json.loads(sandbox.gpuproof("ps", "--format", "json").stdout)["runs"]
    assert listed[0]["status"] == "Failed"
    assert "the agent was killed" in listed[0]["failure_reason"]
    assert sandbox.gpuproof("wait").returncode == 1


def test_a_script_whose_agent_and_guards_were_all_killed_is_ended_by_the_next_command(
    sandbox: CliSandbox,
) -> None:
    if (group := create_group("gpuproof-test-of-groups")) is None:
        pytest.skip("this host lets this user create no control groups")
    end_group(group)
    # Its own children are not ended by the kernel with it.
    sandbox.write(
        "train.py",
        "import subprocess, sys, time\n"
        "while 'gpuproof-' not in open('/proc/self/cgroup').read(): time.sleep(0.01)\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], start_new_session=True)\n"
        "print(child.pid, flush=True)\n" + FOREVER,
    )
    folder = sandbox.detached("train.py")
    until(lambda: is_ready(folder), "the script's start")
    child = int((folder / "logs" / "algo-1.log").read_text().split()[0])
    # The agent records the group while the script runs already: without the record, nothing could be ended by it.
    until(lambda: sandbox.state(folder).get("control_group"), "the record of the script's group")
    agent = sandbox.state(folder)["agent_pid"]
    backstop = descendants(agent)[0]
    reaper = descendants(backstop)[0]
    for pid in (agent, backstop, reaper):
        os.kill(pid, signal.SIGSTOP)
    for pid in (agent, backstop, reaper):
        os.kill(pid, signal.SIGKILL)
    # The run is in progress as long as one of them holds its lock.
    assert all(map(gone, (agent, backstop, reaper)))
    sandbox.gpuproof("ps")
    assert gone(child)
    assert not Path(sandbox.state(folder)["control_group"]).exists()


def test_a_killed_agent_is_reported_at_once_to_followers(sandbox: CliSandbox) -> None:
    sandbox.write("train.py", FOREVER)
    following = sandbox.start("run", "train.py")
    folder = until(
        lambda: sandbox.runs.exists() and any(sandbox.runs.iterdir()) and sandbox.newest(), "the run"
    )
    until(lambda: is_ready(folder), "the script's start")
    os.kill(sandbox.state(folder)["agent_pid"], signal.SIGKILL)
    _, printed = following.communicate(timeout=300)
    assert following.returncode == 1
    assert "the agent was killed" in printed


def test_when_gpuproof_run_is_killed_the_run_goes_on_and_logs_take_it_up(sandbox: CliSandbox) -> None:
    sandbox.write("data/go.txt", "")
    sandbox.write(
        "train.py",
        "import os, time\nprint('first', flush=True)\nprint('ready', flush=True)\n"
        "while not os.path.exists('/opt/ml/input/data/training/stop'): time.sleep(0.05)\nprint('last')",
    )
    following = sandbox.start("run", "train.py", "--input", "training=data")
    folder = until(
        lambda: sandbox.runs.exists() and any(sandbox.runs.iterdir()) and sandbox.newest(), "the run"
    )
    until(lambda: is_ready(folder), "the script's start")
    following.kill()
    following.communicate()
    again = sandbox.start("logs", "-f")
    assert again.stdout is not None
    assert again.stdout.readline() == "first\n"
    sandbox.write("data/stop", "")
    assert again.stdout.read() == "ready\nlast\n"
    assert again.wait(300) == 0
    assert again.stderr is not None
    assert "Completed" in again.stderr.read()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "sigterm"])
def test_ctrl_c_and_sigterm_stop_the_run(number: signal.Signals, sandbox: CliSandbox) -> None:
    sandbox.write(
        "train.py",
        "import signal, sys, time\nsignal.signal(signal.SIGTERM, lambda *_: (print('bye', flush=True), sys.exit(0)))\n"
        + FOREVER,
    )
    following = sandbox.start("run", "train.py")
    folder = until(
        lambda: sandbox.runs.exists() and any(sandbox.runs.iterdir()) and sandbox.newest(), "the run"
    )
    until(lambda: is_ready(folder), "the script's start")
    following.send_signal(number)
    out, printed = following.communicate(timeout=300)
    assert following.returncode == 130
    assert out == "ready\nbye\n"
    assert "Ctrl-C again" in printed
    assert sandbox.state(folder)["status"] == "Stopped"


def test_a_second_ctrl_c_kills_a_script_that_will_not_stop(sandbox: CliSandbox) -> None:
    sandbox.write("train.py", "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + FOREVER)
    following = sandbox.start("run", "train.py")
    folder = until(
        lambda: sandbox.runs.exists() and any(sandbox.runs.iterdir()) and sandbox.newest(), "the run"
    )
    until(lambda: is_ready(folder), "the script's start")
    following.send_signal(signal.SIGINT)
    until(lambda: sandbox.state(folder)["status"] == "Stopping", "the stop")
    following.send_signal(signal.SIGINT)
    following.communicate(timeout=300)
    assert following.returncode == 130
    assert sandbox.state(folder)["exit_code"] == 137
    assert not killed_in_the_end(sandbox, folder)


def test_gpuproof_stop_lets_the_script_save_first(sandbox: CliSandbox) -> None:
    sandbox.write(
        "train.py",
        "import signal, sys\ndef save(*_):\n    open('/opt/ml/model/w', 'w').write('w')\n    sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, save)\n" + FOREVER,
    )
    folder = sandbox.detached("train.py")
    until(lambda: is_ready(folder), "the script's start")
    done = sandbox.gpuproof("stop", folder.name)
    assert done.stdout == f"{folder.name}: Stopped\n"
    assert (folder / "artifacts" / "model.tar.gz").exists()
    assert sandbox.gpuproof("wait", folder.name).returncode == 1


def test_a_run_over_its_time_is_stopped_as_sagemaker_stops_it(sandbox: CliSandbox) -> None:
    sandbox.write("train.py", FOREVER)
    result = sandbox.run_json("train.py", "--max-duration", "1s")
    assert result["run"]["status"] == "Stopped"
    assert result["run"]["secondary_status"] == "MaxRuntimeExceeded"
    assert result["exit_code"] == 1


def test_a_detached_run_outlives_its_terminal(sandbox: CliSandbox) -> None:
    go = sandbox.project / "go"
    sandbox.write(
        "train.py",
        f"import os, time\nwhile not os.path.exists({str(go)!r}): time.sleep(0.05)\nprint('done')",
    )
    folder = sandbox.detached("train.py")
    agent = sandbox.state(folder).get("agent_pid") or until(
        lambda: sandbox.state(folder).get("agent_pid"), "the agent"
    )
    assert os.getsid(agent) == agent
    os.kill(agent, signal.SIGHUP)
    go.touch()
    assert sandbox.gpuproof("wait").returncode == 0
    assert sandbox.gpuproof("logs").stdout == "done\n"


@pytest.mark.parametrize(
    "script",
    [
        "import os\nos.write(1, bytes(range(256)))",
        "import os\nos.write(1, b'x' * 3_000_000)\nos.write(1, b'\\n')",
        "print('no newline at the end', end='')",
    ],
    ids=["not UTF-8", "a line of 3 MB", "no last newline"],
)
def test_any_output_comes_through_byte_for_byte(sandbox: CliSandbox, script: str) -> None:
    sandbox.write("train.py", script)
    assert sandbox.gpuproof("run", "train.py").returncode == 0
    bare = subprocess.run(["python3", sandbox.project / "train.py"], capture_output=True, check=True).stdout
    assert (sandbox.newest() / "logs" / "algo-1.log").read_bytes() == bare
    raw = subprocess.run(
        ["python3", "-c", "import sys; sys.stdout.buffer.write(open(sys.argv[1], 'rb').read())", sandbox.newest() / "logs" / "algo-1.log"],
        capture_output=True, check=True,
    ).stdout  # fmt: skip
    assert raw == bare


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
def test_a_full_disk_ends_in_words_and_not_in_silence(sandbox: CliSandbox) -> None:
    disk = sandbox.project.parent / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=5m", "tmpfs", disk], check=True)
    try:
        sandbox.environment["GPUPROOF_STATE_DIR"] = str(disk)
        sandbox.write("train.py", "open('/opt/ml/model/w', 'wb').write(b'x' * 10_000_000)")
        done = sandbox.gpuproof("run", "train.py")
        assert done.returncode == 1
        assert "No space left on device" in done.stderr
        assert "Failed" in done.stderr
        state = json.loads(next(disk.glob("runs/*/run.json")).read_text())
        assert state["status"] == "Failed"
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a folder read-only")
def test_a_read_only_home_moves_the_runs_with_a_warning(sandbox: CliSandbox) -> None:
    subprocess.run(["mount", "--bind", sandbox.home, sandbox.home], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", sandbox.home], check=True)
        spare = sandbox.project.parent / "tmp"
        spare.mkdir()
        sandbox.environment["TMPDIR"] = str(spare)
        sandbox.write("train.py", "print('fine')")
        done = sandbox.gpuproof("run", "train.py")
        assert done.returncode == 0, done.stderr
        assert done.stdout == "fine\n"
        assert f"Runs are kept in {spare}" in done.stderr
        assert "Completed" in sandbox.gpuproof("show").stdout
    finally:
        subprocess.run(["umount", "-l", sandbox.home], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become a user without rights")
def test_a_plain_user_finds_hard_coded_paths_too(sandbox: CliSandbox) -> None:
    sandbox.write(
        "train.py",
        "import os\nopen('/opt/ml/model/w', 'w').write('w')\nprint(os.getuid(), os.path.exists('/opt/ml/code/train.py'))",
    )
    # Root without its rights: a user namespace in which this user is 1000 and holds no capability outside.
    done = subprocess.run(
        ["unshare", "--user", "--map-user=1000", "--map-group=1000", *GPUPROOF, "run", "train.py"],
        cwd=sandbox.project, env={**os.environ, "HOME": str(sandbox.home)}, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.stdout == "1000 True\n", done.stderr
    assert "mount namespace" in done.stderr
    assert (sandbox.newest() / "artifacts" / "model.tar.gz").exists()


def test_ctrl_c_in_the_first_moment_leaves_nothing_running(sandbox: CliSandbox) -> None:
    sandbox.write("train.py", FOREVER)
    following = sandbox.start("run", "train.py")
    until(lambda: sandbox.runs.exists() and any(sandbox.runs.glob("*/run.json")), "the run")
    following.send_signal(signal.SIGINT)
    following.communicate(timeout=300)
    assert following.returncode == 130
    assert sandbox.state(sandbox.newest())["status"] == "Stopped"


@pytest.mark.parametrize("version", ["2.7", "3.6", "3.8"])
def test_a_script_of_an_old_python_runs_beside_an_agent_of_ours(sandbox: CliSandbox, version: str) -> None:
    found = sorted(Path("~/.pyenv/versions").expanduser().glob(f"{version}.*/bin/python"))
    if not found:
        pytest.skip(f"there is no Python {version} here")
    sandbox.write(
        "train.py", "import os, sys\nprint(sys.version_info[:2])\nopen('/opt/ml/model/w', 'w').close()\n"
    )
    done = sandbox.gpuproof("run", "train.py", "--python", found[0])
    assert done.stdout.replace(" ", "") == f"({version.replace('.', ',')})\n", done.stderr
    assert done.returncode == 0


def test_a_stop_signal_that_another_thread_gets_is_not_lost(sandbox: CliSandbox) -> None:
    sandbox.write("train.py", FOREVER)
    folder = sandbox.detached("train.py")
    until(lambda: is_ready(folder), "the script's start")
    agent = sandbox.state(folder)["agent_pid"]
    others = [int(name) for name in os.listdir(f"/proc/{agent}/task") if int(name) != agent]
    assert others
    # tgkill(2): to the sampler's or the output's thread, as the kernel may choose by itself.
    assert ctypes.CDLL(None).syscall(234, agent, others[0], signal.SIGTERM) == 0
    until(lambda: sandbox.state(folder)["status"] == "Stopped", "the stop")


def test_an_argument_that_no_program_can_get_is_refused_in_words(sandbox: CliSandbox) -> None:
    sandbox.write("train.py", "print('started')")
    sandbox.write("gpuproof.yaml", 'entry_point: train.py\nenvironment: {X: "a\\0b"}\n')
    done = sandbox.gpuproof("run")
    assert done.returncode in (1, 2)
    assert "null" in done.stderr.lower() or "nul" in done.stderr.lower()


def test_a_failing_script_with_an_undecodable_argument_keeps_its_verdict(sandbox: CliSandbox) -> None:
    sandbox.write("train.py", "raise ValueError('no')")
    done = sandbox.gpuproof("run", "train.py", "--", os.fsdecode(b"\xff"))
    assert "ValueError: no" in done.stderr
    assert "verdict" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
def test_a_stop_on_a_full_disk_is_still_a_stop(sandbox: CliSandbox) -> None:
    disk = sandbox.project.parent / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", disk], check=True)
    try:
        sandbox.environment["GPUPROOF_STATE_DIR"] = str(disk)
        sandbox.write(
            "train.py",
            "import os, signal, sys, time\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\nprint('ready', flush=True)\n"
            "while True:\n    os.write(1, b'x' * 65536)\n    time.sleep(0.001)",
        )
        folder = sandbox.detached("train.py")
        until(lambda: os.statvfs(disk).f_bavail == 0, "the full disk")
        done = sandbox.gpuproof("stop", folder.name)
        assert done.stdout == f"{folder.name}: Stopped\n"
        assert (folder / "verdict.json").exists()
    finally:
        subprocess.run(["umount", "-l", disk], check=True)
