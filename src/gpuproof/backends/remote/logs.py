"""Reads the output of a job's hosts, merged in order of time."""

from __future__ import annotations

import heapq
import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gpuproof.agent.log_markers import MESSAGE_MARKER, VERDICT_MARKER
from gpuproof.backends.aws import LogEvent
from gpuproof.backends.hosts import line_prefix
from gpuproof.backends.remote.log_source import LogSource

_HOST = re.compile(r"/(algo-\d+)")
_LONGEST_VERDICT = 4 << 20


@dataclass(frozen=True)
class _Stream:
    """The position in one stream.

    Args:
        host: such as `algo-1`.
        token: of the next page; `None` at the beginning.
        pending: lines that were fetched but not yielded yet.
        piece: the beginning of an incomplete verdict.
    """

    host: str
    token: str | None = None
    pending: tuple[LogEvent, ...] = ()
    piece: str = ""


@dataclass(frozen=True)
class _State:
    """The position in all streams. It is replaced by one assignment, so that an interrupt leaves it consistent."""

    streams: Mapping[str, _Stream] = field(default_factory=dict)
    verdicts: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    messages: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    bytes_read: int = 0


class LogReader:
    """Reads the output of a job's hosts; after an interrupt or error, the next call continues at the same position.

    The agent's own lines, such as its verdict, are not part of the output: they are kept apart.

    Args:
        source: the client, or what a backend reads in place of CloudWatch Logs.
        name: the run's id; the names of its streams are `ID/HOST` or begin with it.
        several: prefix each line with its host's name.
        host: read only this host.
        since: leave out lines before this time, in seconds since the epoch; `bytes_read` counts them.
    """

    def __init__(
        self,
        source: LogSource,
        group: str,
        name: str,
        *,
        several: bool = False,
        host: str | None = None,
        since: float | None = None,
    ) -> None:
        self._source = source
        self._group = group
        self._name = name
        self.several = several
        self._host = host
        self._since = since
        self._state = _State()

    @property
    def bytes_read(self) -> int:
        """Bytes of output that were yielded so far."""
        return self._state.bytes_read

    @property
    def verdicts(self) -> Mapping[str, dict[str, Any]]:
        """The verdicts read so far, by host."""
        return self._state.verdicts

    @property
    def agent_messages(self) -> Mapping[str, tuple[str, ...]]:
        """The agents' messages for the user so far, by host."""
        return self._state.messages

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts that have a log, in order."""
        found = {stream.host for stream in self._state.streams.values()}
        return tuple(sorted(found, key=lambda host: (len(host), host)))

    def count_hosts(self, hosts: int) -> int:
        """The number of hosts that it reads, of all the job's hosts."""
        return hosts if self._host is None else 1

    def find_hosts(self) -> tuple[str, ...]:
        """Look for new streams and return the hosts that have a log."""
        self._find_streams()
        return self.hosts

    def read(self, *, find_streams: bool = True) -> Iterator[bytes]:
        """Yield all new output in order of time, up to the current end of every stream.

        Args:
            find_streams: look for new streams first: of hosts that started late, or were restarted.
        """
        if find_streams or not self._state.streams:
            self._find_streams()
        drained: set[str] = set()
        while True:
            for name in self._state.streams:
                while not self._state.streams[name].pending and name not in drained:
                    if not self._fetch(name):
                        drained.add(name)
            waiting = [stream for stream in self._state.streams.values() if stream.pending]
            if not waiting:
                return
            # A stream may continue beyond the fetched page: later lines of other streams have to wait.
            until = math.inf if len(waiting) == 1 else min(stream.pending[-1].timestamp for stream in waiting)
            if content := self._take(until):
                yield content

    def _find_streams(self) -> None:
        found = self._source.log_streams(self._group, f"{self._name}/")
        known = self._state.streams
        new = {match.name: _Stream(_host_of(match.name)) for match in found if match.name not in known}
        wanted = {name: one for name, one in new.items() if self._host in (None, one.host)}
        if not wanted:
            return
        # A host that restarted, after its spot instance was reclaimed, will have another verdict.
        restarted = {stream.host for stream in wanted.values()}
        verdicts = {host: verdict for host, verdict in self._state.verdicts.items() if host not in restarted}
        messages = {host: texts for host, texts in self._state.messages.items() if host not in restarted}
        self._state = replace(self._state, streams={**known, **wanted}, verdicts=verdicts, messages=messages)

    def _fetch(self, name: str) -> bool:
        """Fetch a stream's next page; returns `False` at its current end."""
        stream = self._state.streams[name]
        events, token = self._source.log_events(self._group, name, stream.token)
        # Empty pages may precede full ones: only an unchanged token marks the end.
        if not events and (token is None or token == stream.token):
            return False
        self._replace(name, replace(stream, token=token, pending=tuple(events)))
        return True

    def _replace(self, name: str, stream: _Stream) -> None:
        self._state = replace(self._state, streams={**self._state.streams, name: stream})

    def _take(self, until: float) -> bytes:
        """Remove and return pending output up to a time."""
        streams, verdicts = dict(self._state.streams), dict(self._state.verdicts)
        messages = dict(self._state.messages)
        parts: list[list[tuple[float, str]]] = []
        for name, stream in streams.items():
            if not stream.pending:
                continue
            count = _count_until(stream.pending, until)
            split = _split(stream.pending[:count], stream.piece)
            if split.verdict is not None:
                verdicts[stream.host] = split.verdict
            if split.messages:
                messages[stream.host] = (*messages.get(stream.host, ()), *split.messages)
            prefix = line_prefix(stream.host) if self.several else ""
            parts.append([(event.timestamp, f"{prefix}{event.message}\n") for event in split.lines])
            streams[name] = replace(stream, pending=stream.pending[count:], piece=split.piece)
        merged = list(heapq.merge(*parts, key=lambda line: line[0]) if len(parts) > 1 else parts[0])
        content = "".join(text for _, text in merged).encode("utf-8", "replace")
        self._state = _State(streams, verdicts, messages, self._state.bytes_read + len(content))
        if self._since is None:
            return content
        recent = (text for time, text in merged if time >= self._since)
        return "".join(recent).encode("utf-8", "replace")


@dataclass(frozen=True)
class Tail:
    """The end of one host's log.

    Args:
        lines: the script's, in their order.
        whole: whether these are all lines of the log.
        verdict: the agent's last line.
    """

    lines: tuple[str, ...]
    whole: bool
    verdict: dict[str, Any] | None
    messages: tuple[str, ...] = ()


def read_tails(source: LogSource, group: str, name: str, *, pages: int = 1) -> dict[str, Tail]:
    """The end of each host's log, by host; a page has up to 10,000 lines.

    A host that restarted has several streams, of which the newest is used.
    """
    newest = {_host_of(stream.name): stream.name for stream in source.log_streams(group, f"{name}/")}
    return {host: _tail(source, group, stream, pages) for host, stream in sorted(newest.items())}


def _tail(source: LogSource, group: str, stream: str, pages: int) -> Tail:
    events: list[LogEvent] = []
    token: str | None = None
    whole = False
    for _ in range(pages):
        page, before = source.last_log_events(group, stream, token)
        events[:0] = page
        whole = not page or before in (None, token)
        if whole:
            break
        token = before
    split = _split(tuple(events), "")
    return Tail(tuple(event.message for event in split.lines), whole, split.verdict, split.messages)


def _host_of(stream: str) -> str:
    found = _HOST.search(stream)
    return found[1] if found else stream.rpartition("/")[2]


def _count_until(events: tuple[LogEvent, ...], until: float) -> int:
    if events[-1].timestamp <= until:
        return len(events)
    # Times within a stream may decrease slightly; its own order takes precedence.
    return next(index for index, event in enumerate(events) if event.timestamp > until)


@dataclass(frozen=True)
class _SplitLines:
    """Lines of a log, split into the script's and the agent's.

    Args:
        piece: the beginning of an incomplete verdict.
        verdict: the verdict, if there was one.
    """

    lines: list[LogEvent]
    piece: str
    verdict: dict[str, Any] | None
    messages: tuple[str, ...]


def _split(events: tuple[LogEvent, ...], piece: str) -> _SplitLines:
    """Split lines into the script's and the agent's.

    A long line may be split into several events (Docker splits after 16 KiB): the pieces are joined until they are JSON.
    """
    lines: list[LogEvent] = []
    messages: list[str] = []
    verdict: dict[str, Any] | None = None
    for event in events:
        if not piece and event.message.startswith(MESSAGE_MARKER):
            messages.append(event.message.removeprefix(MESSAGE_MARKER))
            continue
        begins = event.message.startswith(VERDICT_MARKER)
        if not piece and not begins:
            lines.append(event)
            continue
        text = event.message if begins else piece + event.message
        found, unfinished = _verdict_in(text)
        verdict = found or verdict
        piece = text if unfinished else ""
        if found is None and not unfinished:
            # A line of the script that only looks like a verdict.
            lines.append(LogEvent(event.timestamp, text))
    return _SplitLines(lines, piece, verdict, tuple(messages))


def _verdict_in(text: str) -> tuple[dict[str, Any] | None, bool]:
    """The verdict in a line, and whether the line is incomplete."""
    written = text.removeprefix(VERDICT_MARKER).strip()
    try:
        document = json.loads(written)
    except json.JSONDecodeError as error:
        # Truncated JSON fails at its end, or within a truncated string.
        cut = error.pos >= len(written) or error.msg.startswith(
            ("Unterminated", "Expecting value", "Invalid \\u")
        )
        return None, written.startswith("{") and cut and len(text) < _LONGEST_VERDICT
    is_verdict = isinstance(document, dict) and "outcome" in document
    return (document, False) if is_verdict else (None, False)
