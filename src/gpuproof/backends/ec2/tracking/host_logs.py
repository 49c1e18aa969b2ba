"""The output of a run's hosts: in CloudWatch Logs, or in S3 if the instances could not write it there."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from gpuproof.backends.aws import Aws, AwsRefused, LogEvent, LogStream, S3Object
from gpuproof.backends.remote.s3_layout import RunLayout

OUTPUT = "output.log"
"""A host's whole output, which it uploads if CloudWatch Logs does not take it; see `gpuproof.agent.ec2_host`."""

_IN_S3 = "s3:"
"""Begins the tokens of pages in S3; the rest is the offset in bytes."""
_PAGE = 4 << 20
_DENIED = ("AccessDeniedException", "AccessDenied", "UnauthorizedOperation")


class HostLogs:
    """Reads as `gpuproof.backends.remote.log_source.LogSource` says.

    Lines in S3 have no times of their own, but that of the upload.

    Args:
        aws: the client of the region of the bucket.
        bucket: the bucket of the run's files.
    """

    def __init__(self, aws: Aws, bucket: str, run_id: str, hosts: Sequence[str]) -> None:
        self._aws = aws
        self._bucket = bucket
        self._hosts = {f"{run_id}/{host}": RunLayout(run_id).host_file(host, OUTPUT) for host in hosts}

    def log_streams(self, group: str, prefix: str) -> list[LogStream]:
        """The streams of both."""
        found = {stream.name: stream for stream in self._streams(group, prefix)}
        for name, key in self._hosts.items():
            if name.startswith(prefix) and name not in found and self._aws.object(self._bucket, key):
                found[name] = LogStream(name, None)
        return [found[name] for name in sorted(found)]

    def log_events(
        self, group: str, stream: str, token: str | None = None
    ) -> tuple[list[LogEvent], str | None]:
        """A page of whole lines; of a stream that was begun in CloudWatch Logs, from there."""
        started = token is None or token.startswith(_IN_S3)
        if started and (item := self._in_s3(stream)) is not None:
            start = 0 if token is None else int(token.removeprefix(_IN_S3))
            events, end = self._lines(item, start)
            return events, f"{_IN_S3}{end}"
        return self._aws.log_events(group, stream, token)

    def last_log_events(
        self, group: str, stream: str, token: str | None = None
    ) -> tuple[list[LogEvent], str | None]:
        """The last page; in S3, it is all that is read of the end."""
        if token is not None and token.startswith(_IN_S3):
            return [], token
        if token is None and (item := self._in_s3(stream)) is not None:
            start = max(0, item.size - _PAGE)
            events, _ = self._lines(item, start)
            # The first line of a page in the middle may be the end of one.
            return events[1:] if start else events, f"{_IN_S3}{start}"
        return self._aws.last_log_events(group, stream, token)

    def _streams(self, group: str, prefix: str) -> list[LogStream]:
        """The streams in CloudWatch Logs; none if this user may not see them, since S3 may have the output."""
        try:
            return self._aws.log_streams(group, prefix)
        except AwsRefused as refused:
            if refused.code in _DENIED and any(
                self._aws.object(self._bucket, key) is not None for key in self._hosts.values()
            ):
                return []
            raise

    def _in_s3(self, stream: str) -> S3Object | None:
        key = self._hosts.get(stream)
        return None if key is None else self._aws.object(self._bucket, key)

    def _lines(self, item: S3Object, start: int) -> tuple[list[LogEvent], int]:
        """Lines from an offset on, and the offset behind them; a line that may not be whole yet is left for later."""
        if start >= item.size:
            return [], start
        part = f"bytes={start}-{start + _PAGE - 1}"
        body = self._aws.get_object(item.bucket, item.key, Range=part)["Body"]
        with contextlib.closing(body):
            content: bytes = body.read()
        whole, separator, rest = content.rpartition(b"\n")
        if not separator or len(rest) >= _PAGE // 2:
            whole, separator, rest = content, b"", b""  # one very long line, or the last without a line break
        lines = whole.split(b"\n")
        events = [LogEvent(item.modified, line.rstrip(b"\r").decode("utf-8", "replace")) for line in lines]
        return events, start + len(content) - len(rest)
