"""Stack traces of processes that hang."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpuproof.agent.output import Sink, appending_to
from gpuproof.agent.ranks.watched import is_watcher
from gpuproof.agent.stall.watch import find_py_spy, print_stack_traces
from gpuproof.util.process_tree import descendants

pytestmark = pytest.mark.slow

# A launcher with two ranks: it kills the other one as soon as one ends, and a rank fails as soon as the launcher is gone.
LAUNCHER = """
import os, subprocess, sys, time
ranks = [subprocess.Popen([sys.executable, sys.argv[1]], env={**os.environ, "RANK": str(n)}) for n in range(2)]
def watch():
    while all(rank.poll() is None for rank in ranks):
        time.sleep(0.01)
    for rank in ranks:
        rank.kill()
watch()
"""
RANK = """
import threading, time
def waits_for_a_peer():
    print("hangs", flush=True)
    time.sleep(600)
threading.Thread(target=waits_for_a_peer).start()
time.sleep(600)
"""
SPY = """#!/bin/sh
[ "$FAIL" ] && exit 1
echo "Thread $3 (idle): MainThread"
"""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def root(tmp_path: Path, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The process that has started the launcher."""
    (tmp_path / "launcher.py").write_text(LAUNCHER)
    (tmp_path / "rank.py").write_text(RANK)
    with start(tmp_path / "launcher.py", tmp_path / "rank.py", log) as process:
        yield process


@contextlib.contextmanager
def start(script: Path, child: Path, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("ab") as output:
        process = subprocess.Popen(
            ["/bin/sh", "-c", '"$@" & wait', "sh", sys.executable, str(script), str(child)],
            stdout=output,
            stderr=output,
            env={**os.environ, "PYTHONFAULTHANDLER": "1"},
            start_new_session=True,
        )
    try:
        until(lambda: log.read_text().count("hangs") == 2)
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, 9)
        process.wait()


def until(is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 300
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_without_py_spy_each_process_prints_all_its_threads_before_anything_reacts(
    root: subprocess.Popen[bytes], log: Path
) -> None:
    sink = Sink(appending_to(log))
    print_stack_traces(root.pid, sink, [])
    root.wait(300)
    text = log.read_text()
    # The launcher, which passes output on, is not among them.
    assert "stack traces of the ranks' Python processes (2):" in text
    assert text.count("Fatal Python error: Aborted") == 2
    assert "in watch" not in text
    ranks = [text.index(mark) for mark in (", rank 0:", ", rank 1:")]
    assert "in waits_for_a_peer" in text[min(ranks) : max(ranks)]
    assert "in waits_for_a_peer" in text[max(ranks) :]


def test_the_processes_that_watch_ranks_are_left_out(log: Path, tmp_path: Path, agent_file: Path) -> None:
    watched = f'[sys.executable, {str(agent_file)!r}, "--watched-rank", sys.argv[1]]'
    (tmp_path / "launcher.py").write_text(LAUNCHER.replace("[sys.executable, sys.argv[1]]", watched))
    (tmp_path / "rank.py").write_text(RANK)
    with start(tmp_path / "launcher.py", tmp_path / "rank.py", log) as root:
        until(lambda: sum(map(is_watcher, descendants(root.pid))) == 2)
        print_stack_traces(root.pid, Sink(appending_to(log)), [])
        root.wait(300)
    text = log.read_text()
    assert "stack traces of the ranks' Python processes (2):" in text
    assert text.count("in waits_for_a_peer") == text.count("Fatal Python error: Aborted") == 2


def test_a_script_with_workers_of_its_own_is_the_last(log: Path, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(LAUNCHER.replace('"RANK": str(n)', '"WORKER": str(n)'))
    (tmp_path / "worker.py").write_text(RANK)
    with start(tmp_path / "train.py", tmp_path / "worker.py", log) as root:
        print_stack_traces(root.pid, Sink(appending_to(log)), [])
        root.wait(300)
    text = log.read_text()
    assert text.count("Fatal Python error: Aborted") == 3
    assert "stack traces of all Python processes (3):" in text
    assert text.rindex("in waits_for_a_peer") < text.index("in watch")


def test_with_py_spy_the_processes_continue(root: subprocess.Popen[bytes], log: Path, tmp_path: Path) -> None:
    spy = tmp_path / "py-spy"
    spy.write_text(SPY)
    spy.chmod(0o755)
    print_stack_traces(root.pid, Sink(appending_to(log)), [tmp_path])
    assert log.read_text().count("(idle): MainThread") == 2
    assert "Aborted" not in log.read_text()
    assert root.poll() is None


def test_processes_that_py_spy_may_not_read_print_themselves(
    root: subprocess.Popen[bytes], log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spy = tmp_path / "py-spy"
    spy.write_text(SPY)
    spy.chmod(0o755)
    monkeypatch.setenv("FAIL", "1")
    print_stack_traces(root.pid, Sink(appending_to(log)), [tmp_path])
    root.wait(300)
    assert log.read_text().count("Fatal Python error: Aborted") == 2


def test_py_spy_of_the_scripts_environment_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("environment", "path"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "py-spy").write_text("#!/bin/sh\n")
        (tmp_path / name / "py-spy").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    assert find_py_spy([tmp_path / "environment"]) == str(tmp_path / "environment" / "py-spy")
    assert find_py_spy([]) == str(tmp_path / "path" / "py-spy")
    monkeypatch.setenv("PATH", "")
    assert find_py_spy([tmp_path]) is None
