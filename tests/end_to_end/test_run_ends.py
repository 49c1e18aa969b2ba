"""How runs end: by themselves, by a fault, by a person."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from gpuproof.util.process_tree import descendants
from support.cli_sandbox import GPUPROOF, Desk, gone, until

pytestmark = pytest.mark.journey

FOREVER = "import time\nprint('ready', flush=True)\ntime.sleep(600)\n"
# A script with a child that has left its process group and session, as loader workers and servers do.
FAMILY = """
import os, subprocess, sys, time
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
print("ready", flush=True)
time.sleep(600)
"""


def ready(folder: Path) -> bool:
    log = folder / "logs" / "algo-1.log"
    return log.exists() and b"ready" in log.read_bytes()


def killed_in_the_end(desk: Desk, folder: Path) -> bool:
    """Whether SIGKILL came because the script had let the two minutes after SIGTERM pass."""
    return any("SIGTERM did not end the script" in note for note in desk.state(folder)["notes"])


def family(desk: Desk, folder: Path) -> list[int]:
    """The agent and everything below it."""
    agent = desk.state(folder)["agent_pid"]
    return [agent, *descendants(agent)]


def test_a_failing_script_leaves_code_1_and_says_why(desk: Desk) -> None:
    desk.write("train.py", "raise ValueError('no rows')")
    done = desk.gpuproof("run", "train.py")
    assert done.returncode == 1
    assert "Failed" in done.stderr
    assert "train.py exited with code 1: ValueError: no rows" in done.stderr
    folder = desk.newest()
    assert desk.state(folder)["exit_code"] == 1
    failure = (folder / "ml" / "output" / "failure").read_text()
    assert failure.startswith("ExecuteUserScriptError:\nExitCode 1\n")
    assert "ValueError: no rows" in failure


def test_the_scripts_own_exit_code_is_kept(desk: Desk) -> None:
    desk.write("train.py", "raise SystemExit(42)")
    assert desk.run_json("train.py")["run"]["exit_code"] == 42


def test_the_scripts_own_failure_message_goes_before_ours(desk: Desk) -> None:
    desk.write(
        "train.py", "open('/opt/ml/output/failure', 'w').write('disk of data is bad')\nraise SystemExit(1)"
    )
    result = desk.run_json("train.py")
    assert "disk of data is bad" in result["run"]["failure_reason"]
    assert (Path(result["folder"]) / "ml" / "output" / "failure").read_text() == "disk of data is bad"


def test_a_script_killed_by_the_kernel_is_told_from_one_that_failed(desk: Desk) -> None:
    desk.write("train.py", "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)")
    result = desk.run_json("train.py")
    assert result["run"]["exit_code"] == 137
    assert "killed by SIGKILL" in result["run"]["failure_reason"]


def test_what_a_failed_script_saved_is_kept(desk: Desk) -> None:
    desk.write("train.py", "open('/opt/ml/model/w', 'w').write('w')\nraise SystemExit(1)")
    result = desk.run_json("train.py")
    assert (Path(result["folder"]) / "artifacts" / "model.tar.gz").exists()


def test_when_the_agent_is_killed_the_whole_tree_dies_and_the_run_has_failed(desk: Desk) -> None:
    desk.write("train.py", FAMILY)
    folder = desk.detached("train.py")
    until(lambda: ready(folder), "the script's start")
    pids = until(lambda: len(found := family(desk, folder)) >= 4 and found, "the whole tree")
    os.kill(pids[0], signal.SIGKILL)
    assert [pid for pid in pids if not gone(pid)] == []
    listed = json.loads(desk.gpuproof("ps", "--format", "json").stdout)["runs"]
    assert listed[0]["status"] == "Failed"
    assert "the agent was killed" in listed[0]["failure_reason"]
    assert desk.gpuproof("wait").returncode == 1


def test_whoever_follows_learns_at_once_that_the_agent_was_killed(desk: Desk) -> None:
    desk.write("train.py", FOREVER)
    following = desk.start("run", "train.py")
    folder = until(lambda: desk.runs.exists() and any(desk.runs.iterdir()) and desk.newest(), "the run")
    until(lambda: ready(folder), "the script's start")
    os.kill(desk.state(folder)["agent_pid"], signal.SIGKILL)
    _, said = following.communicate(timeout=300)
    assert following.returncode == 1
    assert "the agent was killed" in said


def test_when_gpuproof_run_is_killed_the_run_goes_on_and_logs_take_it_up(desk: Desk) -> None:
    desk.write("data/go.txt", "")
    desk.write(
        "train.py",
        "import os, time\nprint('first', flush=True)\nprint('ready', flush=True)\n"
        "while not os.path.exists('/opt/ml/input/data/training/stop'): time.sleep(0.05)\nprint('last')",
    )
    following = desk.start("run", "train.py", "--input", "training=data")
    folder = until(lambda: desk.runs.exists() and any(desk.runs.iterdir()) and desk.newest(), "the run")
    until(lambda: ready(folder), "the script's start")
    following.kill()
    following.communicate()
    again = desk.start("logs", "-f")
    assert again.stdout is not None
    assert again.stdout.readline() == "first\n"
    desk.write("data/stop", "")
    assert again.stdout.read() == "ready\nlast\n"
    assert again.wait(300) == 0
    assert again.stderr is not None
    assert "Completed" in again.stderr.read()


def test_ctrl_c_stops_the_run(desk: Desk) -> None:
    desk.write(
        "train.py",
        "import signal, sys, time\nsignal.signal(signal.SIGTERM, lambda *_: (print('bye', flush=True), sys.exit(0)))\n"
        + FOREVER,
    )
    following = desk.start("run", "train.py")
    folder = until(lambda: desk.runs.exists() and any(desk.runs.iterdir()) and desk.newest(), "the run")
    until(lambda: ready(folder), "the script's start")
    following.send_signal(signal.SIGINT)
    out, said = following.communicate(timeout=300)
    assert following.returncode == 130
    assert out == "ready\nbye\n"
    assert "Ctrl-C again" in said
    assert desk.state(folder)["status"] == "Stopped"


def test_a_second_ctrl_c_kills_a_script_that_will_not_stop(desk: Desk) -> None:
    desk.write("train.py", "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + FOREVER)
    following = desk.start("run", "train.py")
    folder = until(lambda: desk.runs.exists() and any(desk.runs.iterdir()) and desk.newest(), "the run")
    until(lambda: ready(folder), "the script's start")
    following.send_signal(signal.SIGINT)
    until(lambda: desk.state(folder)["status"] == "Stopping", "the stop")
    following.send_signal(signal.SIGINT)
    following.communicate(timeout=300)
    assert following.returncode == 130
    assert desk.state(folder)["exit_code"] == 137
    assert not killed_in_the_end(desk, folder)


def test_gpuproof_stop_lets_the_script_save_first(desk: Desk) -> None:
    desk.write(
        "train.py",
        "import signal, sys\ndef save(*_):\n    open('/opt/ml/model/w', 'w').write('w')\n    sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, save)\n" + FOREVER,
    )
    folder = desk.detached("train.py")
    until(lambda: ready(folder), "the script's start")
    done = desk.gpuproof("stop", folder.name)
    assert done.stdout == f"{folder.name}: Stopped\n"
    assert (folder / "artifacts" / "model.tar.gz").exists()
    assert desk.gpuproof("wait", folder.name).returncode == 1


def test_a_run_over_its_time_is_stopped_as_sagemaker_stops_it(desk: Desk) -> None:
    desk.write("train.py", FOREVER)
    result = desk.run_json("train.py", "--max-duration", "1s")
    assert result["run"]["status"] == "Stopped"
    assert result["run"]["secondary_status"] == "MaxRuntimeExceeded"
    assert result["exit_code"] == 1


def test_a_detached_run_outlives_its_terminal(desk: Desk) -> None:
    go = desk.project / "go"
    desk.write(
        "train.py",
        f"import os, time\nwhile not os.path.exists({str(go)!r}): time.sleep(0.05)\nprint('done')",
    )
    folder = desk.detached("train.py")
    agent = desk.state(folder).get("agent_pid") or until(
        lambda: desk.state(folder).get("agent_pid"), "the agent"
    )
    assert os.getsid(agent) == agent
    os.kill(agent, signal.SIGHUP)
    go.touch()
    assert desk.gpuproof("wait").returncode == 0
    assert desk.gpuproof("logs").stdout == "done\n"


def test_checkpoints_of_a_failed_attempt_are_there_on_the_next_and_gone_after_success(desk: Desk) -> None:
    desk.write(
        "train.py",
        "import os, pathlib\np = pathlib.Path('/opt/ml/checkpoints/step')\n"
        "step = int(p.read_text()) if p.exists() else 0\nprint('from', step)\np.write_text(str(step + 1))\nraise SystemExit(step < 2)",
    )
    first, second, third, fourth = (desk.gpuproof("run", "train.py") for _ in range(4))
    assert [done.stdout for done in (first, second, third)] == ["from 0\n", "from 1\n", "from 2\n"]
    assert "1 checkpoint file" in second.stderr
    assert third.returncode == 0
    assert fourth.stdout == "from 0\n"


def test_fresh_begins_without_checkpoints_and_loses_none(desk: Desk) -> None:
    desk.write(
        "train.py",
        "import os; print(os.listdir('/opt/ml/checkpoints')); open('/opt/ml/checkpoints/a', 'w'); raise SystemExit(1)",
    )
    desk.gpuproof("run", "train.py")
    first = desk.newest()
    assert desk.gpuproof("run", "train.py", "--fresh").stdout == "[]\n"
    assert (first / "checkpoints" / "a").exists()


def test_a_checkpoint_folder_of_the_users_is_used_every_time(desk: Desk) -> None:
    desk.write(
        "train.py",
        "import os; print(sorted(os.listdir('/opt/ml/checkpoints'))); open('/opt/ml/checkpoints/a', 'w')",
    )
    desk.write("gpuproof.yaml", "entry_point: train.py\ncheckpoint: ./ckpt\n")
    assert desk.gpuproof("run").stdout == "[]\n"
    assert desk.gpuproof("run").stdout == "['a']\n"
    assert (desk.project / "ckpt" / "a").exists()


@pytest.mark.parametrize(
    "script",
    [
        "import os\nos.write(1, bytes(range(256)))",
        "import os\nos.write(1, b'x' * 3_000_000)\nos.write(1, b'\\n')",
        "print('no newline at the end', end='')",
    ],
    ids=["not UTF-8", "a line of 3 MB", "no last newline"],
)
def test_any_output_comes_through_byte_for_byte(desk: Desk, script: str) -> None:
    desk.write("train.py", script)
    assert desk.gpuproof("run", "train.py").returncode == 0
    bare = subprocess.run(["python3", desk.project / "train.py"], capture_output=True, check=True).stdout
    assert (desk.newest() / "logs" / "algo-1.log").read_bytes() == bare
    raw = subprocess.run(
        ["python3", "-c", "import sys; sys.stdout.buffer.write(open(sys.argv[1], 'rb').read())", desk.newest() / "logs" / "algo-1.log"],
        capture_output=True, check=True,
    ).stdout  # fmt: skip
    assert raw == bare


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
def test_a_full_disk_ends_in_words_and_not_in_silence(desk: Desk) -> None:
    disk = desk.project.parent / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", disk], check=True)
    try:
        desk.environment["GPUPROOF_STATE_DIR"] = str(disk)
        desk.write("train.py", "open('/opt/ml/model/w', 'wb').write(b'x' * 10_000_000)")
        done = desk.gpuproof("run", "train.py")
        assert done.returncode == 1
        assert "No space left on device" in done.stderr
        assert "Failed" in done.stderr
        state = json.loads(next(disk.glob("runs/*/run.json")).read_text())
        assert state["status"] == "Failed"
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a folder read-only")
def test_a_read_only_home_moves_the_runs_and_says_so(desk: Desk) -> None:
    subprocess.run(["mount", "--bind", desk.home, desk.home], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", desk.home], check=True)
        spare = desk.project.parent / "tmp"
        spare.mkdir()
        desk.environment["TMPDIR"] = str(spare)
        desk.write("train.py", "print('fine')")
        done = desk.gpuproof("run", "train.py")
        assert done.returncode == 0, done.stderr
        assert done.stdout == "fine\n"
        assert f"Runs are kept in {spare}" in done.stderr
        assert "Completed" in desk.gpuproof("show").stdout
    finally:
        subprocess.run(["umount", "-l", desk.home], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become a user without rights")
def test_a_plain_user_finds_hard_coded_paths_too(desk: Desk) -> None:
    desk.write(
        "train.py",
        "import os\nopen('/opt/ml/model/w', 'w').write('w')\nprint(os.getuid(), os.path.exists('/opt/ml/code/train.py'))",
    )
    # Root without its rights: a user namespace in which this user is 1000 and holds no capability outside.
    done = subprocess.run(
        ["unshare", "--user", "--map-user=1000", "--map-group=1000", *GPUPROOF, "run", "train.py"],
        cwd=desk.project, env={**os.environ, "HOME": str(desk.home)}, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.stdout == "1000 True\n", done.stderr
    assert "mount namespace" in done.stderr
    assert (desk.newest() / "artifacts" / "model.tar.gz").exists()


def test_ctrl_c_in_the_first_moment_leaves_nothing_running(desk: Desk) -> None:
    desk.write("train.py", FOREVER)
    following = desk.start("run", "train.py")
    until(lambda: desk.runs.exists() and any(desk.runs.glob("*/run.json")), "the run")
    following.send_signal(signal.SIGINT)
    following.communicate(timeout=300)
    assert following.returncode == 130
    assert desk.state(desk.newest())["status"] == "Stopped"


@pytest.mark.parametrize("version", ["2.7", "3.6", "3.8"])
def test_a_script_of_an_old_python_runs_beside_an_agent_of_ours(desk: Desk, version: str) -> None:
    found = sorted(Path("~/.pyenv/versions").expanduser().glob(f"{version}.*/bin/python"))
    if not found:
        pytest.skip(f"there is no Python {version} here")
    desk.write(
        "train.py", "import os, sys\nprint(sys.version_info[:2])\nopen('/opt/ml/model/w', 'w').close()\n"
    )
    done = desk.gpuproof("run", "train.py", "--python", found[0])
    assert done.stdout.replace(" ", "") == f"({version.replace('.', ',')})\n", done.stderr
    assert done.returncode == 0


def test_a_stop_signal_that_another_thread_gets_is_not_lost(desk: Desk) -> None:
    desk.write("train.py", FOREVER)
    folder = desk.detached("train.py")
    until(lambda: ready(folder), "the script's start")
    agent = desk.state(folder)["agent_pid"]
    others = [int(name) for name in os.listdir(f"/proc/{agent}/task") if int(name) != agent]
    assert others
    # tgkill(2): to the sampler's or the output's thread, as the kernel may choose by itself.
    assert ctypes.CDLL(None).syscall(234, agent, others[0], signal.SIGTERM) == 0
    until(lambda: desk.state(folder)["status"] == "Stopped", "the stop")


def test_checkpoints_are_found_behind_an_attempt_that_left_none(desk: Desk) -> None:
    desk.write(
        "train.py",
        "import os, sys\nprint(sorted(os.listdir('/opt/ml/checkpoints')))\n"
        "if '--save' in sys.argv: open('/opt/ml/checkpoints/a', 'w').close()\n"
        "if '--wait' in sys.argv:\n    print('ready', flush=True)\n    import time; time.sleep(600)\nraise SystemExit(1)",
    )
    first = desk.detached("train.py", "--", "--save", "--wait")
    until(lambda: ready(first), "the first attempt")
    assert desk.gpuproof("run", "train.py").stdout == "[]\n"
    desk.gpuproof("stop", "--now", first.name)
    assert desk.gpuproof("run", "train.py").stdout == "['a']\n"


def test_an_argument_that_no_program_can_get_is_refused_in_words(desk: Desk) -> None:
    desk.write("train.py", "print('started')")
    desk.write("gpuproof.yaml", 'entry_point: train.py\nenvironment: {X: "a\\0b"}\n')
    done = desk.gpuproof("run")
    assert done.returncode in (1, 2)
    assert "null" in done.stderr.lower() or "nul" in done.stderr.lower()


def test_a_failing_script_with_an_undecodable_argument_keeps_its_verdict(desk: Desk) -> None:
    desk.write("train.py", "raise ValueError('no')")
    done = desk.gpuproof("run", "train.py", "--", os.fsdecode(b"\xff"))
    assert "ValueError: no" in done.stderr
    assert "verdict" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
def test_a_stop_on_a_full_disk_is_still_a_stop(desk: Desk) -> None:
    disk = desk.project.parent / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", disk], check=True)
    try:
        desk.environment["GPUPROOF_STATE_DIR"] = str(disk)
        desk.write(
            "train.py",
            "import os, signal, sys, time\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\nprint('ready', flush=True)\n"
            "while True:\n    os.write(1, b'x' * 65536)\n    time.sleep(0.001)",
        )
        folder = desk.detached("train.py")
        until(lambda: os.statvfs(disk).f_bavail == 0, "the full disk")
        done = desk.gpuproof("stop", folder.name)
        assert done.stdout == f"{folder.name}: Stopped\n"
        assert (folder / "verdict.json").exists()
    finally:
        subprocess.run(["umount", "-l", disk], check=True)
