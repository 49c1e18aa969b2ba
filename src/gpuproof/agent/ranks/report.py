"""A rank's report: when it started, how it ended, and the exception that ended it.

Each rank has one file in the folder that `GPUPROOF_RANK_REPORTS` names. It is written when the rank starts, and again when it
ends; a rank that was killed leaves the first version. A rank that is restarted replaces its file.
"""

from __future__ import annotations

import json
import signal
from dataclasses import dataclass, replace
from pathlib import Path

from gpuproof.agent.ranks.rank_file import write_rank_file

_SUDDEN = ("SIGKILL", "SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE")
_NOTICED_LATE_S = 1.0


@dataclass(frozen=True)
class RankReport:
    """One rank of a distributed script.

    Args:
        rank: index of the process among all processes.
        local_rank: its index on its host.
        attempt: how often the ranks had been restarted before.
        started: when it started, in Unix time.
        ended: when the script reached its end, in Unix time; `None` if it has not.
        time: when it failed, in Unix time; `None` if it has not.
        type: the exception's class, such as `ValueError`; `SystemExit` for `sys.exit(1)`; a signal's name, such as `SIGKILL`.
        traceback: the traceback, without the frames of this package.
        code: exit code, or minus the number of the signal that killed it; `None` if unknown.
    """

    host: str
    rank: int
    local_rank: int
    pid: int
    attempt: int
    started: float
    ended: float | None = None
    time: float | None = None
    type: str = ""
    message: str = ""
    traceback: str = ""
    code: int | None = None

    @property
    def failed(self) -> bool:
        """Whether it ended with an exception, a signal or another exit code than 0."""
        return self.time is not None

    @property
    def vanished(self) -> bool:
        """Whether it neither failed nor reached the script's end: it is still running, or was killed."""
        return self.time is None and self.ended is None

    @property
    def error(self) -> str:
        """The exception in one line, such as `ValueError: no data`."""
        return f"{self.type}: {self.message}" if self.message else self.type

    @property
    def order(self) -> float:
        """The time by which failures are ordered, in Unix time: the first one is the cause of the others.

        A process that was killed, or that left by `os._exit`, cannot note the time itself. Its launcher notices its end
        when other ranks may already have raised exceptions about a lost connection.
        """
        sudden = self.type in _SUDDEN or (self.type == "SystemExit" and not self.traceback)
        return (self.time or 0.0) - (_NOTICED_LATE_S if sudden else 0.0)

    def failing(
        self, time: float, kind: str, message: str = "", traceback: str = "", code: int | None = None
    ) -> RankReport:
        """This rank after a failure."""
        return replace(self, time=time, type=kind, message=message, traceback=traceback, code=code)

    def ending_with(self, code: int, time: float) -> RankReport:
        """This rank after an end that it could not report itself.

        Args:
            code: exit code, or minus the number of the signal that killed it.
        """
        if code >= 0:
            return self.failing(time, "SystemExit", str(code), code=code)
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        return self.failing(time, name, code=code)

    def write(self, folder: Path | str) -> None:
        """Write the rank's file, replacing the previous one in one step.

        Raises:
            OSError: the folder or the file cannot be written.
        """
        write_rank_file(folder, vars(self))


def read_reports(folder: Path) -> list[RankReport]:
    """All reports in a folder, by rank; files that cannot be read are left out."""
    found = (_read(path) for path in folder.glob("rank-*.json"))
    return sorted((report for report in found if report is not None), key=lambda report: report.rank)


def _read(path: Path) -> RankReport | None:
    try:
        return RankReport(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None
