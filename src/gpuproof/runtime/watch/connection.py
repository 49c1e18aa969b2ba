"""This process's connection to the monitor process, which samples the GPUs from outside of this interpreter."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gpuproof.util.launcher import Member, find_member, monitor_key
from gpuproof.util.monitor_client import MonitorClient, MonitorLost

_WIDEST = 100
"""Characters per line of the verdict."""
_ATTEMPTS = 4
_PAUSE_S = 0.2


@dataclass(frozen=True)
class WatchOptions:
    """What `rt.watch()` was told.

    Args:
        gpus: how many GPUs must work; `None` for all that the script can see.
        require_gpu: whether it is a failure if they do no work.
        report: file for the report, as JSON.
        group: name of the job that several processes or hosts share.
        to: folder or `s3://` location for the reports of a group.
        hosts: number of hosts of a group; `None` for the launcher's.
    """

    gpus: int | None = None
    require_gpu: bool = True
    report: str | None = None
    group: str | None = None
    to: str | None = None
    hosts: int | None = None

    def settings(self, member: Member | None) -> dict[str, Any]:
        """`gpuproof.watch.settings.WatchSettings` as a JSON object.

        Args:
            member: this process in a job with several.
        """
        settings = {"gpus": self.gpus, "require_gpu": self.require_gpu}
        if member is None:
            return settings
        return {**settings, "hosts": member.least_hosts, "group": member.group, "to": self.to}


@dataclass(frozen=True)
class Judgement:
    """What the GPUs did for this process, or for a part of its work.

    Args:
        text: the verdict, for a terminal.
        unused: a required GPU did no work.
        reason: of the verdict, in a sentence.
        report: the content of the report's file.
    """

    text: str
    unused: bool
    reason: str
    report: Mapping[str, Any]


class Connection:
    """A connection to the monitor process; any thread may use it.

    Args:
        options: those of the first `rt.watch()`, which name the job.

    Raises:
        MonitorLost: there is no monitor process, with the reason. The methods raise it as well.
    """

    def __init__(self, options: WatchOptions) -> None:
        if not _is_supported():
            raise MonitorLost("rt.watch() needs Linux with /proc")
        member = find_member(os.environ, options.group, options.hosts)
        self._member = member if member is not None and (member.has_peers or options.to is not None) else None
        try:
            self._client = MonitorClient(
                monitor_key(self._member, os.environ) if self._member is not None else None
            )
        except OSError as error:
            raise MonitorLost(f"the monitor process could not be started: {error}") from error
        self._lock = threading.RLock()
        self._parts = 0
        self.registered = False
        """Whether this process counts as a member of the job."""

    def register(self, options: WatchOptions) -> None:
        """Count this process and its descendants as the job's."""
        member = self._member
        facts: dict[str, Any] = {"command": _command()}
        if member is not None:
            facts["member"] = asdict(member)
        request = {
            "do": "register",
            "pid": os.getpid(),
            "settings": options.settings(member),
            "environment": dict(os.environ),
            "facts": facts,
            "file": _absolute(options.report),
        }
        with self._lock:
            self._request_again(request)
            self.registered = True
            with contextlib.suppress(OSError, ValueError):
                self._client.report_if_killed(sys.stderr.fileno())

    def finish(self, code: int | None) -> Judgement | None:
        """End this process's membership; returns what the GPUs did if it was the last member of the job.

        Args:
            code: its exit code, if it is known.
        """
        with self._lock:
            self.registered = False
            return _judgement(
                self._client.request({"do": "finish", "exit_code": code, "display": _display()})
            )

    def withdraw(self) -> None:
        """End this process's membership without a report."""
        with self._lock:
            self.registered = False
            self._client.request({"do": "withdraw"})

    def begin(self, options: WatchOptions) -> str:
        """Begin a part of this process's work; returns its label for `end`."""
        with self._lock:
            self._parts += 1
            label = f"part-{self._parts}"
            self._client.begin(label, options.settings(None), dict(os.environ))
            return label

    def gpu_used(self) -> bool | None:
        """Whether a GPU has done work for the job so far; `None` if unknown."""
        with self._lock:
            return self._client.request({"do": "gpu_used"})["used"]

    def begin_measuring(self) -> str:
        """Begin to sample for `usage` in a process that is no member of a job; returns the label."""
        return self.begin(WatchOptions(require_gpu=False))

    def usage(self, label: str | None = None) -> list[dict[str, Any]]:
        """What each GPU has done so far: `index`, `name`, `seconds` with readings, `busy_s` of those, and memory in bytes.

        Args:
            label: of a part; `None` for the job.
        """
        with self._lock:
            return self._client.request({"do": "usage", "label": label})["gpus"]

    def end(self, label: str, options: WatchOptions) -> Judgement | None:
        """End a part; returns what the GPUs did meanwhile."""
        file = _absolute(options.report)
        with self._lock:
            return _judgement(
                self._client.request({"do": "end", "label": label, "file": file, "display": _display()})
            )

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def _connect(self) -> MonitorClient:
        member = self._member
        try:
            return MonitorClient(f"{member.group}@{member.host}" if member is not None else None)
        except OSError as error:
            raise MonitorLost(f"the monitor process could not be started: {error}") from error

    def _request_again(self, request: Mapping[str, Any]) -> None:
        """Send a request, again if the monitor process of an earlier job of the same name is just ending."""
        for _ in range(_ATTEMPTS if self._member is not None else 0):
            with contextlib.suppress(MonitorLost):
                self._client.request(request)
                return
            time.sleep(_PAUSE_S)
            with contextlib.suppress(MonitorLost):
                self._client = self._connect()
        self._client.request(request)


def _is_supported() -> bool:
    return sys.platform == "linux" and Path("/proc/self/ns/pid").exists()


def _absolute(file: str | None) -> str | None:
    return None if file is None else str(Path(file).absolute())


def _command() -> list[str]:
    words: list[str] = list(getattr(sys, "orig_argv", None) or [sys.executable, *sys.argv])
    return words


def _display() -> dict[str, Any]:
    """How the terminal of standard error shows text."""
    stream = sys.stderr
    is_terminal = bool(stream is not None and stream.isatty())
    return {
        "width": min(_WIDEST, shutil.get_terminal_size((_WIDEST, 0)).columns),
        "colour": is_terminal and "NO_COLOR" not in os.environ,
        "unicode": "utf" in (getattr(stream, "encoding", None) or "").lower(),
    }


def _judgement(answer: Mapping[str, Any]) -> Judgement | None:
    if "report" not in answer:
        return None
    report = answer["report"]
    return Judgement(answer["text"], answer["unused"], str(report["verdict"].get("reason") or ""), report)
