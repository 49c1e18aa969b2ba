"""Requests to CloudWatch Logs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpuproof.backends.aws.errors import AwsRefused
from gpuproof.backends.aws.session import AwsSession


@dataclass(frozen=True)
class LogStream:
    """One stream of a log group; a job has one for each of its hosts.

    Args:
        name: such as `my-job/algo-1-1700000000`.
        created: seconds since the epoch; None if CloudWatch does not report it.
    """

    name: str
    created: float | None


@dataclass(frozen=True)
class LogEvent:
    """One line of a log.

    Args:
        timestamp: when it was printed, in seconds since the epoch.
        message: without the line break.
    """

    timestamp: float
    message: str


class LogCalls(AwsSession):
    """The client's methods for CloudWatch Logs."""

    def log_streams(self, group: str, prefix: str) -> list[LogStream]:
        """The streams with a name prefix, sorted by name; empty if the group does not exist yet."""
        request = {"logGroupName": group, "logStreamNamePrefix": prefix}
        streams = self._items("logs", "describe_log_streams", "logStreams", request, group)
        try:
            return [
                LogStream(stream["logStreamName"], _seconds(stream.get("creationTime"))) for stream in streams
            ]
        except AwsRefused as refused:
            if refused.is_missing:
                return []
            raise

    def has_log_group(self, group: str) -> bool:
        """Whether a log group exists."""
        try:
            self._request("logs", "describe_log_streams", {"logGroupName": group, "limit": 1}, group)
        except AwsRefused as refused:
            if refused.is_missing:
                return False
            raise
        return True

    def log_events(
        self, group: str, stream: str, token: str | None = None
    ) -> tuple[list[LogEvent], str | None]:
        """One page of a stream's lines (10,000 lines or 1 MiB), and the token of the next page.

        Empty pages may precede full ones: the current end is reached when the token does not change.

        Args:
            token: from the previous page; the stream's start if None.
        """
        events, page = self._page(group, stream, token, from_head=True)
        return events, page.get("nextForwardToken", token)

    def last_log_events(
        self, group: str, stream: str, token: str | None = None
    ) -> tuple[list[LogEvent], str | None]:
        """The last page of a stream's lines, and the token of the page before it.

        The start is reached when a page is empty or the token does not change.

        Args:
            token: from the following page; the stream's end if None.
        """
        events, page = self._page(group, stream, token, from_head=False)
        return events, page.get("nextBackwardToken", token)

    def _page(
        self, group: str, stream: str, token: str | None, *, from_head: bool
    ) -> tuple[list[LogEvent], dict[str, Any]]:
        """The lines of a page and the response; both empty if the stream does not exist."""
        request: dict[str, Any] = {"logGroupName": group, "logStreamName": stream, "startFromHead": from_head}
        if token is not None:
            request["nextToken"] = token
        page = self._find("logs", "get_log_events", request, f"{group} {stream}")
        if page is None:
            return [], {}
        return [LogEvent(event["timestamp"] / 1000, event["message"]) for event in page["events"]], page


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000
