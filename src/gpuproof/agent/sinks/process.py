"""A sink's process, and the pipe to it. Nothing here waits for the sink, except `wait` up to its deadline."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_MOST_PENDING = 1 << 20
"""Bytes that wait for a sink that does not read; points that come later are dropped."""


class SinkProcess:
    """A sink in a process of its own.

    Args:
        name: of the sink.
        command: the program, which reads lines of JSON.
        folder: its working directory.
        report: the file that it writes before it ends: what went wrong, and where the values are.
        log: receives its output.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str],
        folder: str,
        report: Path,
        log: Path,
    ) -> None:
        self.name = name
        self._report = report
        self._pending = b""
        self._dropped = 0
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env=environment,
                start_new_session=True,
            )
        assert self._process.stdin is not None
        self._pipe: int | None = os.dup(self._process.stdin.fileno())
        self._process.stdin.close()
        os.set_inheritable(self._pipe, False)
        os.set_blocking(self._pipe, False)

    @property
    def pid(self) -> int:
        return self._process.pid

    def fileno(self) -> int:
        """The pipe, for `select`; only while something is pending."""
        assert self._pipe is not None
        return self._pipe

    @property
    def is_pending(self) -> bool:
        """Whether the sink has not read everything yet."""
        return self._pipe is not None and bool(self._pending)

    def send(self, message: Mapping[str, Any], *, droppable: bool = True) -> None:
        """Write a message, or keep it until the sink reads; a sink that has ended receives nothing."""
        if self._pipe is None:
            return
        if droppable and len(self._pending) > _MOST_PENDING:
            self._dropped += 1
            return
        self._pending += json.dumps(message, separators=(",", ":")).encode() + b"\n"
        self.flush()

    def flush(self) -> None:
        """Write as much as the pipe takes."""
        while self.is_pending:
            try:
                written = os.write(self.fileno(), self._pending)
            except BlockingIOError:
                return
            except OSError:
                self.close()  # it has ended; its report says why
                return
            self._pending = self._pending[written:]

    def close(self) -> None:
        """Close the pipe, so that the sink finishes."""
        if self._pipe is not None:
            os.close(self._pipe)
            self._pipe = None

    def wait(self, deadline: float) -> tuple[str | None, list[str]]:
        """Wait for the end of the sink, kill it at the deadline, and return where its values are, and notes.

        Args:
            deadline: by the monotonic clock.
        """
        self.close()
        notes: list[str] = []
        try:
            self._process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            notes.append("it did not end in time and was killed")
        # A library may have started processes of its own.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        report = self._read_report()
        if not report and not notes:
            notes.append("it ended without a report")
        notes += report.get("notes", [])
        if self._dropped:
            notes.append(f"{self._dropped} points were dropped, because it did not read them in time")
        return report.get("location"), [f"sink {self.name}: {note}" for note in notes]

    def _read_report(self) -> dict[str, Any]:
        try:
            report = json.loads(self._report.read_bytes())
        except (OSError, ValueError):
            return {}
        return report if isinstance(report, dict) else {}
