"""Sends a container's output to CloudWatch Logs, in batches, as it arrives."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable
from typing import IO, Any

# Limits of PutLogEvents: https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_PutLogEvents.html
_MAX_EVENTS = 10_000
_MAX_BYTES = 1_048_576
_OVERHEAD = 26  # bytes that count for each event in addition to its text
_MAX_EVENT_BYTES = 262_144 - _OVERHEAD  # bytes of one event
_BATCH_S = 0.25  # seconds that a line waits for further lines
_READ = 1 << 18


class LogStream:
    """One log stream.

    Args:
        logs: a CloudWatch Logs client.
        group: the log group; created if necessary.
        stream: the stream's name.
        on_line: called with every line.
        clock: returns seconds since the epoch.
    """

    def __init__(
        self,
        logs: Any,
        group: str,
        stream: str,
        on_line: Callable[[str], None] = lambda _: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._logs = logs
        self._group = group
        self._stream = stream
        self._on_line = on_line
        self._clock = clock
        self._events: list[dict[str, Any]] = []
        self._bytes = 0
        self._since = 0.0
        self._denied = False
        for create in (
            lambda: logs.create_log_group(logGroupName=group),
            lambda: logs.create_log_stream(logGroupName=group, logStreamName=stream),
        ):
            try:
                create()
            except logs.exceptions.ResourceAlreadyExistsException:
                continue
            except logs.exceptions.ClientError as error:
                self._drop(error)

    def copy(self, source: IO[bytes]) -> None:
        """Send everything that a pipe yields, to its end."""
        descriptor = source.fileno()
        rest = b""
        while True:
            wait = None if not self._events else max(0.0, self._since + _BATCH_S - time.monotonic())
            if not select.select([descriptor], [], [], wait)[0]:
                self.flush()
                continue
            part = os.read(descriptor, _READ)
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
        self.flush()

    def add(self, line: bytes) -> None:
        """Add one line to the batch."""
        moment = int(self._clock() * 1000)
        # CloudWatch Logs rejects empty events.
        for start in range(0, len(line) or 1, _MAX_EVENT_BYTES):
            text = line[start : start + _MAX_EVENT_BYTES].rstrip(b"\r").decode("utf-8", "replace") or " "
            self._on_line(text)
            size = len(text.encode()) + _OVERHEAD
            if len(self._events) == _MAX_EVENTS or self._bytes + size > _MAX_BYTES:
                self.flush()
            if not self._events:
                self._since = time.monotonic()
            self._events.append({"timestamp": moment, "message": text})
            self._bytes += size

    def flush(self) -> None:
        """Send the batch."""
        if not self._events:
            return
        events, self._events, self._bytes = self._events, [], 0
        if self._denied:
            return
        try:
            self._logs.put_log_events(logGroupName=self._group, logStreamName=self._stream, logEvents=events)
        except self._logs.exceptions.ClientError as error:
            self._drop(error)

    def _drop(self, error: Any) -> None:
        """Write no log if the role may not, as on AWS: the job itself goes on."""
        if error.response["Error"]["Code"] != "AccessDeniedException":
            raise error
        if not self._denied:
            print(f"gpuproof: there is no log {self._group} {self._stream}: {error}", flush=True)
        self._denied = True
