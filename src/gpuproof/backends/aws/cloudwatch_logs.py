"""What is request of CloudWatch Logs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpuproof.backends.aws.errors import AwsRefused
from gpuproof.backends.aws.session import AwsSession

_MISSING = "ResourceNotFoundException"


@dataclass(frozen=True)
class LogStream:
    """One stream of a log group; a job has one for each of its hosts.

    Args:
        name: such as `my-job/algo-1-1700000000`.
        created: seconds since the epoch; None where CloudWatch does not say.
    """

    name: str
    created: float | None


@dataclass(frozen=True)
class LogEvent:
    """One line.

    Args:
        timestamp: when it was printed, in seconds since the epoch.
        message: without the line's end.
    """

    timestamp: float
    message: str


class LogCalls(AwsSession):
    """CloudWatch Logs' part of the client."""

    def log_streams(self, group: str, prefix: str) -> list[LogStream]:
        """The streams whose names begin so, by name; none where the group is not there yet."""
        request = {"logGroupName": group, "logStreamNamePrefix": prefix}
        try:
            pages = list(self._pages("logs", "describe_log_streams", request, group))
        except AwsRefused as refused:
            if refused.code == _MISSING:
                return []
            raise
        return [
            LogStream(stream["logStreamName"], _seconds(stream.get("creationTime")))
            for page in pages
            for stream in page["logStreams"]
        ]

    def log_events(
        self, group: str, stream: str, token: str | None = None
    ) -> tuple[list[LogEvent], str | None]:
        """One page of a stream's lines (10,000, or 1 MiB), and where the next begins.

        A page may be empty though more follow: the end is reached, for now, where the token stays as it was.

        Args:
            token: from the page before; the stream's beginning if None.
        """
        events, page = self._page(group, stream, token, from_head=True)
        return events, page.get("nextForwardToken", token)

    def last_log_events(
        self, group: str, stream: str, token: str | None = None
    ) -> tuple[list[LogEvent], str | None]:
        """A stream's last page of lines, and where the one before it ends.

        The beginning is reached where a page is empty, or the token stays as it was.

        Args:
            token: from the page behind; the stream's end if None.
        """
        events, page = self._page(group, stream, token, from_head=False)
        return events, page.get("nextBackwardToken", token)

    def _page(
        self, group: str, stream: str, token: str | None, *, from_head: bool
    ) -> tuple[list[LogEvent], dict[str, Any]]:
        """A page's lines, and the page; both empty where the stream is not there."""
        request: dict[str, Any] = {"logGroupName": group, "logStreamName": stream, "startFromHead": from_head}
        if token is not None:
            request["nextToken"] = token
        try:
            page = self._request("logs", "get_log_events", request, f"{group} {stream}")
        except AwsRefused as refused:
            if refused.code == _MISSING:
                return [], {}
            raise
        return [LogEvent(event["timestamp"] / 1000, event["message"]) for event in page["events"]], page


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000
