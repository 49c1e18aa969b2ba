"""Sends the job's output to CloudWatch Logs in batches, and keeps it on the disk."""

from __future__ import annotations

import contextlib
import io
import json
import threading
import time
from collections import deque
from pathlib import Path
from typing import Any, Callable

from gpuproof.agent.ec2_host.transfer.aws_cli import AwsCli, AwsFailed
from gpuproof.agent.log_markers import MESSAGE_MARKER

# Limits of PutLogEvents: https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_PutLogEvents.html
_MAX_EVENTS = 10_000
_MAX_BYTES = 1_048_576
_OVERHEAD = 26  # bytes that count for each event in addition to its text
_MAX_EVENT_BYTES = 262_144 - _OVERHEAD
_BATCH_S = 2.0
_SHARE = 8  # a call takes half a second of CPU: the script gets the rest
_KEPT_BYTES = 32 << 20
_CLOSE_S = 120.0
_LEFT_S = 5.0
_MARKER = MESSAGE_MARKER.encode()
_MOST_MESSAGES = 20
_LAST_LINES = 5
_LAST_CHARACTERS = 500
_THERE = ("ResourceAlreadyExistsException",)


class LogStream:
    """One stream of CloudWatch Logs, filled by two threads: one reads a pipe, the other calls AWS.

    While CloudWatch Logs cannot be reached, lines wait in memory, up to a limit.

    Args:
        retry_for: seconds for which calls that failed are repeated.
        group: the log group; created if there is none.
        copy: a file for the whole output; as much is kept as the disk has room for.
        clock: seconds since the epoch.
    """

    def __init__(
        self,
        retry_for: float,
        group: str,
        stream: str,
        copy: Path,
        scratch: Path,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._aws = AwsCli(self._pause, retry_for)
        self._group = group
        self._stream = stream
        self._copy = copy
        self._request = scratch / "log-events.json"
        self._clock = clock
        self._lines: deque[tuple[int, str, int]] = deque()
        self._bytes = 0
        self._dropped = 0
        self._lock = threading.Lock()
        self._ending = threading.Event()
        self.problem = ""
        """Why some of the output is not in CloudWatch Logs; empty if all of it is."""
        self.messages: list[str] = []
        """The agent's messages in the output: why the job failed, and notes."""
        self.last_lines: deque[str] = deque(maxlen=_LAST_LINES)
        """The end of the output."""
        self._sender = threading.Thread(target=self._send_all, name="log sender", daemon=True)
        self._sender.start()
        self._reader: threading.Thread | None = None

    def read(self, pipe: io.BufferedReader) -> None:
        """Read a pipe to its end, in the background."""
        self._reader = threading.Thread(target=self._read, args=(pipe,), name="log reader", daemon=True)
        self._reader.start()

    def add(self, line: bytes) -> None:
        """Add a line."""
        moment = int(self._clock() * 1000)
        if line.startswith(_MARKER) and len(self.messages) < _MOST_MESSAGES:
            self.messages.append(line[len(_MARKER) :].decode("utf-8", "replace"))
        self.last_lines.append(line[:_LAST_CHARACTERS].decode("utf-8", "replace"))
        with self._lock:
            for start in range(0, len(line) or 1, _MAX_EVENT_BYTES):
                # CloudWatch Logs rejects empty events.
                text = line[start : start + _MAX_EVENT_BYTES].rstrip(b"\r").decode("utf-8", "replace") or " "
                size = len(text.encode()) + _OVERHEAD
                self._lines.append((moment, text, size))
                self._bytes += size
            while self._bytes > _KEPT_BYTES:
                self._bytes -= self._lines.popleft()[2]
                self._dropped += 1

    def finish_reading(self) -> None:
        """Read what the pipe still has after the job has ended, unless a process that it left behind keeps it open."""
        if self._reader is not None:
            self._reader.join(_LEFT_S)

    def close(self, wait: Callable[[float], None]) -> None:
        """Send what is left.

        Args:
            wait: called meanwhile.
        """
        end = time.monotonic() + _CLOSE_S
        self.finish_reading()
        self._ending.set()
        while self._sender.is_alive() and time.monotonic() < end:
            wait(0.1)
        if self._sender.is_alive():
            self.problem = self.problem or "CloudWatch Logs did not answer"
        elif self._dropped:
            self.problem = self.problem or f"{self._dropped} lines were more than CloudWatch Logs accepted"

    def _read(self, pipe: io.BufferedReader) -> None:
        copy = _open(self._copy)
        rest = b""
        while True:
            part = pipe.read1(1 << 16)
            if copy is not None:
                try:
                    copy.write(part)
                except OSError:
                    copy = None  # the disk is full
            if not part:
                break
            *lines, rest = (rest + part).split(b"\n")
            for line in lines:
                self.add(line)
            if len(rest) > _MAX_EVENT_BYTES:
                self.add(rest)
                rest = b""
        if rest:
            self.add(rest)
        if copy is not None:
            with contextlib.suppress(OSError):
                copy.write(b"\n" if rest else b"")
            copy.close()

    def _send_all(self) -> None:
        try:
            self._create()
            while not self._ending.is_set() or self._lines:
                if not self._lines:
                    self._ending.wait(_BATCH_S)
                    continue
                start = time.monotonic()
                self._send_batch()
                self._ending.wait(max(_BATCH_S, _SHARE * (time.monotonic() - start)))
        except (AwsFailed, OSError) as error:
            self.problem = str(error)

    def _create(self) -> None:
        group = ("--log-group-name", self._group)
        # Usually the group exists, and one call suffices.
        try:
            self._aws.run("logs", "create-log-stream", *group, "--log-stream-name", self._stream)
        except AwsFailed as failed:
            if failed.code in _THERE:
                return
            if failed.code != "ResourceNotFoundException":
                raise
            with contextlib.suppress(AwsFailed):  # another host may have created it just now
                self._aws.attempt("logs", "create-log-group", *group)
            self._aws.run("logs", "create-log-stream", *group, "--log-stream-name", self._stream)

    def _send_batch(self) -> None:
        events: list[dict[str, Any]] = []
        size = 0
        with self._lock:
            while self._lines and len(events) < _MAX_EVENTS and size + self._lines[0][2] <= _MAX_BYTES:
                moment, text, length = self._lines.popleft()
                # In order of time, also if the clock was set back.
                moment = max(moment, events[-1]["timestamp"] if events else 0)
                events.append({"timestamp": moment, "message": text})
                size += length
            self._bytes -= size
        request = {"logGroupName": self._group, "logStreamName": self._stream, "logEvents": events}
        self._request.write_text(json.dumps(request), encoding="utf-8")
        self._aws.run("logs", "put-log-events", "--cli-input-json", f"file://{self._request}")

    def _pause(self, seconds: float) -> None:
        if seconds:
            time.sleep(seconds)


def _open(path: Path) -> io.FileIO | None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return io.FileIO(path, "w")
    except OSError:
        return None
