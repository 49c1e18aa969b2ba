"""One process of a job with several: the monitor process of its host samples for all of them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Callable

from gpuproof.util.launcher import Member, monitor_key
from gpuproof.util.monitor_client import MonitorClient, MonitorLost
from gpuproof.watch.group.host_job import member_to_json
from gpuproof.watch.report import WatchReport
from gpuproof.watch.settings import WatchSettings

_ATTEMPTS = 5
_PAUSE_S = 0.2


@dataclass
class MemberSession:
    """The counterpart of a `WatchSession` for a process whose host's monitor process does the work.

    Args:
        environment: the variables of the command.
    """

    settings: WatchSettings
    member: Member
    command: Sequence[str]
    environment: Mapping[str, str]
    sleep: Callable[[float], None] = time.sleep
    problem: str | None = None
    """Why the command is not watched."""
    _client: MonitorClient | None = None

    def read_first(self) -> None:
        """Register; never raises: a command runs also if it cannot be watched."""
        for attempt in range(_ATTEMPTS):
            if attempt:
                self.sleep(_PAUSE_S)  # the monitor process of an earlier job is just ending
            try:
                self._client = MonitorClient(monitor_key(self.member, self.environment))
                self._client.register(
                    self.settings.to_json(),
                    self.environment,
                    member=member_to_json(self.member),
                    only_watches=True,
                    command=list(self.command),
                )
            except MonitorLost as problem:
                self._client = None
                self.problem = str(problem)
            else:
                self.problem = None
                return

    def start(self) -> None:
        """Nothing to do: the monitor process has begun."""

    def gpu_used(self) -> bool | None:
        """Whether a GPU of this host has done work for the job so far; `None` if unknown."""
        answer = self._request({"do": "gpu_used"})
        return answer.get("used") if answer else None

    def finish(self, code: int, stopped_because: str | None = None) -> WatchReport | None:
        """Report the end of the command.

        Args:
            code: its exit code, or minus the number of the signal that ended it.
            stopped_because: as in the report.

        Returns:
            For the last process of the job on this host, the report on the host; for the last one of all hosts, on the job.
        """
        answer = self._request({"do": "finish", "exit_code": code, "stopped_because": stopped_because})
        if self._client is not None:
            self._client.close()
        if not answer or not answer.get("last"):
            return None
        return WatchReport.from_json(answer.get("job") or answer["report"])

    def _request(self, message: Mapping[str, Any]) -> dict[str, Any] | None:
        if self._client is None:
            return None
        try:
            return self._client.request(message)
        except MonitorLost as problem:
            self.problem = str(problem)
            return None
