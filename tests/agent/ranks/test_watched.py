"""Ranks with a watcher: it reports what a rank cannot report itself, and otherwise is not noticed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuproof.agent.mpi.rank_processes import signal_ranks
from gpuproof.agent.ranks.report import RankReport, read_reports
from gpuproof.agent.ranks.watched import is_watcher
from gpuproof.util.process_tree import children
from support.cli_sandbox import until

pytestmark = pytest.mark.slow

# A script that saves its state when it is stopped, and counts how often it is asked to.
STOPPED = """
import os, signal, sys, time
asked = []
signal.signal(signal.SIGTERM, lambda *_: asked.append(1))
print("ready", flush=True)
while not asked:
    time.sleep(0.01)
time.sleep(0.2)
sys.exit(10 + len(asked))
"""


class WatchedRank:
    """One rank on `algo-2`, in a process group of its own as under mpirun."""

    def __init__(self, folder: Path, agent: Path) -> None:
        self._folder, self._agent = folder, agent
        self.process: subprocess.Popen[str] | None = None

    def start(self, script: str) -> subprocess.Popen[str]:
        (self._folder / "train.py").write_text(script)
        variables = {
            "GPUPROOF_RANK_REPORTS": str(self._folder / "reports"),
            "GPUPROOF_HOST": "algo-2",
            "SM_CURRENT_HOST": "algo-1",
            "OMPI_COMM_WORLD_RANK": "3",
            "OMPI_COMM_WORLD_LOCAL_RANK": "1",
        }
        self.process = subprocess.Popen(
            [sys.executable, str(self._agent), "--watched-rank", "train.py"],
            cwd=self._folder,
            env={**os.environ, **variables},
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        return self.process

    def ready(self, script: str) -> subprocess.Popen[str]:
        """Start a script, and wait for its first line."""
        process = self.start(script)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        until(lambda: is_watcher(process.pid), "the watcher")
        return process

    def end(self, script: str) -> tuple[int, RankReport]:
        """Run a script; its exit code and its report."""
        code = self.start(script).wait(120)
        (report,) = read_reports(self._folder / "reports")
        return code, report


@pytest.fixture
def rank(tmp_path: Path, agent_file: Path) -> Iterator[WatchedRank]:
    made = WatchedRank(tmp_path, agent_file)
    yield made
    if made.process is not None and made.process.poll() is None:
        os.killpg(made.process.pid, signal.SIGKILL)
        made.process.wait(300)


@pytest.mark.parametrize("name", ["SIGKILL", "SIGSEGV", "SIGTERM"])
def test_a_signal_that_kills_the_rank_is_reported(rank: WatchedRank, name: str) -> None:
    code, report = rank.end(f"import os, signal; os.kill(os.getpid(), signal.{name})")
    number = signal.Signals[name]
    assert (code, report.code, report.type) == (-number, -number, name)
    assert (report.host, report.rank, report.local_rank) == ("algo-2", 3, 1)
    assert report.time is not None
    assert report.started <= report.time


def test_an_exit_without_pythons_end_is_reported(rank: WatchedRank) -> None:
    code, report = rank.end("import os; os._exit(3)")
    assert (code, report.code, report.error) == (3, 3, "SystemExit: 3")


def test_an_exception_keeps_the_report_of_the_rank_itself(rank: WatchedRank) -> None:
    code, report = rank.end("raise ValueError('no data')")
    assert (code, report.error) == (1, "ValueError: no data")
    assert report.traceback.endswith("ValueError: no data\n")


def test_the_scripts_end_is_no_failure(rank: WatchedRank) -> None:
    code, report = rank.end("print('done')")
    assert (code, report.failed, report.vanished) == (0, False, False)


def test_a_signal_to_the_process_group_reaches_the_script_once(rank: WatchedRank) -> None:
    process = rank.ready(STOPPED)
    os.killpg(process.pid, signal.SIGTERM)
    assert process.wait(120) == 11


def test_a_stop_reaches_the_script_and_not_its_watcher(rank: WatchedRank) -> None:
    process = rank.ready(STOPPED)
    (script,) = children(process.pid)
    assert not is_watcher(script)
    signal_ranks([process.pid])
    assert process.wait(120) == 11
