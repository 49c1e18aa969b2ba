"""Log streams in memory that answer as `Aws` does: pages with tokens, and faults where a test wants them."""

from __future__ import annotations

from collections import deque

from gpuproof.backends.aws import LogEvent, LogStream


class Streams:
    """A log group.

    Args:
        page: how many lines a page holds.
    """

    def __init__(self, page: int = 10_000) -> None:
        self.lines: dict[str, list[LogEvent]] = {}
        self.faults: deque[Exception | None] = deque()
        self.asked: list[tuple[str, ...]] = []
        self._page = page

    def say(self, host: str, *messages: str, at: float = 0.0, job: str = "job", epoch: int = 1) -> None:
        """A host prints lines, a millisecond apart."""
        stream = self.lines.setdefault(f"{job}/{host}-{epoch}", [])
        stream.extend(LogEvent(at + number / 1000, message) for number, message in enumerate(messages))

    def log_streams(self, group: str, prefix: str) -> list[LogStream]:
        """As `Aws.log_streams`."""
        self._ask("streams", group, prefix)
        return [LogStream(name, None) for name in sorted(self.lines) if name.startswith(prefix)]

    def log_events(
        self, group: str, stream: str, token: str | None = None
    ) -> tuple[list[LogEvent], str | None]:
        """As `Aws.log_events`: at the present end the token stays as it was."""
        self._ask("events", group, stream)
        start = int(token or 0)
        found = self.lines[stream][start : start + self._page]
        return found, str(start + len(found))

    def last_log_events(
        self, group: str, stream: str, token: str | None = None
    ) -> tuple[list[LogEvent], str | None]:
        """As `Aws.last_log_events`."""
        self._ask("tail", group, stream)
        lines = self.lines[stream]
        end = len(lines) if token is None else int(token)
        start = max(0, end - self._page)
        return lines[start:end], str(start)

    def _ask(self, *what: str) -> None:
        self.asked.append(what)
        if self.faults and (fault := self.faults.popleft()) is not None:
            raise fault
