"""Runs a rank in a child process, and reports how it ended if it could not do so itself: killed by a signal, or by `os._exit`.

mpirun reports the end of a rank only in words. This process is between mpirun and the rank: it forks the rank before anything
is imported, waits for it, and then ends as the rank has ended.
"""

from __future__ import annotations

import os
import time

from gpuproof.agent.ranks.rank import run_rank
from gpuproof.agent.ranks.rank_file import FOLDER_VARIABLE, describe_rank

WATCHER = "gpuproof-rank"
"""Name of this process in `/proc/PID/comm`, by which others recognize it: it has the rank's command line and variables."""


def run_watched_rank(words: list[str]) -> int:
    """Run a script or module to its end, as `run_rank` does; return its exit code, or die by the signal that has killed it."""
    started = time.time()
    child = os.fork()
    if child == 0:
        return run_rank(words)
    _ignore_signals()
    _, status = os.waitpid(child, 0)
    ended = time.time()
    code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
    if code != 0:
        _complete_report(child, started, ended, code)
    if code < 0:
        from gpuproof.util.process_tree import die_by_signal  # only for a failure

        die_by_signal(-code)
    os._exit(code)


def is_watcher(pid: int) -> bool:
    """Whether a process watches a rank and is none itself."""
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            return file.read().strip() == WATCHER
    except OSError:
        return False


def _ignore_signals() -> None:
    """Leave signals to the rank: mpirun sends them to the whole process group."""
    import signal  # the rank itself does not wait for it

    for number in ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGABRT", "SIGUSR1", "SIGUSR2", "SIGALRM"):
        signal.signal(getattr(signal, number), signal.SIG_IGN)
    try:
        with open("/proc/self/comm", "w", encoding="ascii") as file:  # noqa: PTH123 - pathlib is slow to import
            file.write(WATCHER)
    except OSError:
        return  # not Linux


def _complete_report(pid: int, started: float, ended: float, code: int) -> None:
    folder = os.environ.get(FOLDER_VARIABLE)
    if folder is None:
        return
    from pathlib import Path  # only for a failure

    from gpuproof.agent.ranks.report import RankReport, read_reports

    about = {**describe_rank(started), "pid": pid}
    report = next(
        (report for report in read_reports(Path(folder)) if report.pid == pid),
        RankReport(**about),  # type: ignore[arg-type]  # its fields
    )
    if report.failed:
        return
    try:
        report.ending_with(code, ended).write(folder)
    except OSError:
        return  # a full disk
