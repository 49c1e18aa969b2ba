"""Runs torch's own launcher in this process, and completes the reports of ranks that could not write theirs.

A rank that is killed by a signal, and a rank that is no Python script, leaves no report of its failure. This process is
their parent, so it learns of their end as soon as the kernel does.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

from gpuproof.agent.ranks.rank_file import FOLDER_VARIABLE, HOST_VARIABLE
from gpuproof.agent.ranks.report import RankReport, read_reports
from gpuproof.util.process_tree import end_descendants

_PAUSE_S = 0.02


def run_torchrun(words: list[str]) -> int:
    """Run `torch.distributed.run` with these arguments to its end; return 0, or 128 + n if signal n has stopped it.

    Raises:
        BaseException: whatever torch raises, such as `ChildFailedError`.
    """
    try:
        from torch.distributed.run import main  # pyright: ignore[reportMissingImports]
    except ModuleNotFoundError as error:
        print(
            f"distribution torchrun: {error}. It needs PyTorch 1.9 or later in {sys.executable}: "
            "choose an image of PyTorch, or add torch to requirements.txt.",
            file=sys.stderr,
        )
        return 1
    folder = os.environ.get(FOLDER_VARIABLE)
    watch = ChildWatch(Path(folder)) if folder else None
    if watch is not None:
        watch.start()
    try:
        main(words)
    except Exception as error:
        stopped_by = getattr(error, "sigval", None)
        if stopped_by is not None:
            # torch's SignalException: the agent stops the host. A traceback would look like a cause.
            # torch ends the ranks, unless the signal came before it had noted that they were started.
            end_descendants()
            return 128 + int(stopped_by)
        if watch is not None:
            watch.complete(getattr(error, "failures", {}))
        raise
    return 0


class ChildWatch(threading.Thread):
    """Notes when ranks end with a signal or another exit code than 0, and adds it to their reports at once."""

    def __init__(self, folder: Path) -> None:
        super().__init__(name="rank-watch", daemon=True)
        self._folder = folder
        self._ended: dict[int, float] = {}

    def run(self) -> None:
        while True:
            try:
                # The child stays a zombie: torch collects it and its exit code.
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
            except ChildProcessError:
                time.sleep(_PAUSE_S * 5)  # there are no ranks yet, or between two attempts
                continue
            if ended is not None and ended.si_pid not in self._ended:
                self._ended[ended.si_pid] = time.time()
                by_signal = ended.si_code != os.CLD_EXITED
                self._note(ended.si_pid, -ended.si_status if by_signal else ended.si_status)
            time.sleep(_PAUSE_S)

    def complete(self, failures: object) -> None:
        """Report failures of ranks that have no report, because they are no Python scripts.

        Args:
            failures: `ChildFailedError.failures`: torch's `ProcessFailure` by rank.
        """
        if not isinstance(failures, dict):
            return
        known = {report.rank for report in read_reports(self._folder) if report.failed}
        for rank, failure in failures.items():
            if rank not in known:
                when = self._ended.get(failure.pid, time.time())
                host = os.environ.get(HOST_VARIABLE) or os.environ.get("SM_CURRENT_HOST", "")
                report = RankReport(host, rank, failure.local_rank, failure.pid, 0, when)
                report.ending_with(failure.exitcode, when).write(self._folder)

    def _note(self, pid: int, code: int) -> None:
        if code == 0:
            return
        for report in read_reports(self._folder):
            if report.pid == pid and not report.failed:
                report.ending_with(code, self._ended[pid]).write(self._folder)
