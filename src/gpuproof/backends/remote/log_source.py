"""Where the output of a job's hosts is read from: CloudWatch Logs, or what a backend has in its place."""

from __future__ import annotations

from typing import Protocol

from gpuproof.backends.aws import LogEvent, LogStream


class LogSource(Protocol):
    """Streams of lines, one for each host; see `gpuproof.backends.aws.services.cloudwatch_logs.LogCalls`."""

    def log_streams(self, group: str, prefix: str) -> list[LogStream]:
        """The streams with a name prefix, sorted by name; empty if there are none yet."""
        ...

    def log_events(
        self, group: str, stream: str, token: str | None = None
    ) -> tuple[list[LogEvent], str | None]:
        """One page of a stream's lines, and the token of the next page; the current end is an unchanged token."""
        ...

    def last_log_events(
        self, group: str, stream: str, token: str | None = None
    ) -> tuple[list[LogEvent], str | None]:
        """The last page of a stream's lines, and the token of the page before it; an empty page is the start."""
        ...
