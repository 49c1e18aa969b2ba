"""The output of a job's hosts as one: read from CloudWatch Logs page by page, in the order in which it was printed."""

from __future__ import annotations

import heapq
import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gpuproof.agent.log_markers import VERDICT_MARK, WORDS_MARK
from gpuproof.backends.aws import Aws, LogEvent, SageMakerKind

_GROUPS = {"training": "/aws/sagemaker/TrainingJobs", "processing": "/aws/sagemaker/ProcessingJobs"}
_HOST = re.compile(r"/(algo-\d+)")
_LONGEST_VERDICT = 4 << 20


@dataclass(frozen=True)
class _Stream:
    """How far one stream was read.

    Args:
        host: such as `algo-1`.
        token: where the next page begins; `None` at the beginning.
        pending: lines that were fetched and not given yet.
        piece: the beginning of a verdict whose end has not come yet.
    """

    host: str
    token: str | None = None
    pending: tuple[LogEvent, ...] = ()
    piece: str = ""


@dataclass(frozen=True)
class _State:
    """How far all was read. One assignment replaces it: an interrupt finds the old state or the new one, whole."""

    streams: Mapping[str, _Stream] = field(default_factory=dict)
    verdicts: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    words: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    given: int = 0


class LogReader:
    """Reads what a job's hosts printed, and goes on where it was whatever interrupts it.

    What the agent says, its verdict above all, is no line of the script's: it is taken out and kept.

    Args:
        aws: the client.
        kind: the job's kind.
        name: the job's name.
        several: whether each line is to begin with its host's name.
        host: read that host alone.
    """

    def __init__(
        self, aws: Aws, kind: SageMakerKind, name: str, *, several: bool = False, host: str | None = None
    ) -> None:
        self._aws = aws
        self._group = _GROUPS[kind]
        self._name = name
        self.several = several
        self._host = host
        self._state = _State()

    @property
    def given(self) -> int:
        """Bytes that were given so far."""
        return self._state.given

    @property
    def verdicts(self) -> Mapping[str, dict[str, Any]]:
        """The verdicts that were met so far, by host."""
        return self._state.verdicts

    @property
    def words(self) -> Mapping[str, tuple[str, ...]]:
        """What the agents said to people so far, line by line, by host."""
        return self._state.words

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts that have a log, in their order."""
        found = {stream.host for stream in self._state.streams.values()}
        return tuple(sorted(found, key=lambda host: (len(host), host)))

    def find_hosts(self) -> tuple[str, ...]:
        """The hosts that have a log by now."""
        self._find_streams()
        return self.hosts

    def read(self, *, look: bool = True) -> Iterator[bytes]:
        """All that is new, in the order of time, to the present end of every stream.

        Args:
            look: look for new streams: a host that came later, or one that began anew.
        """
        if look or not self._state.streams:
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
            # A stream may go on beyond what was fetched of it: what is later waits for that.
            until = math.inf if len(waiting) == 1 else min(one.pending[-1].timestamp for one in waiting)
            if content := self._give(until):
                yield content

    def _find_streams(self) -> None:
        found = self._aws.log_streams(self._group, f"{self._name}/")
        known = self._state.streams
        new = {one.name: _Stream(_host_of(one.name)) for one in found if one.name not in known}
        wanted = {name: one for name, one in new.items() if self._host in (None, one.host)}
        if not wanted:
            return
        # A host that began anew, after its spot instance was taken away, will have another verdict.
        anew = {one.host for one in wanted.values()}
        verdicts = {host: one for host, one in self._state.verdicts.items() if host not in anew}
        words = {host: said for host, said in self._state.words.items() if host not in anew}
        self._state = replace(self._state, streams={**known, **wanted}, verdicts=verdicts, words=words)

    def _fetch(self, name: str) -> bool:
        """Fetch a stream's next page; `False` at its present end."""
        stream = self._state.streams[name]
        events, token = self._aws.log_events(self._group, name, stream.token)
        # Empty pages may come before full ones, the first page among them: the token alone tells the end.
        if not events and (token is None or token == stream.token):
            return False
        self._replace(name, replace(stream, token=token, pending=tuple(events)))
        return True

    def _replace(self, name: str, stream: _Stream) -> None:
        self._state = replace(self._state, streams={**self._state.streams, name: stream})

    def _give(self, until: float) -> bytes:
        """Take what was printed until then out of what is pending."""
        streams, verdicts = dict(self._state.streams), dict(self._state.verdicts)
        words = dict(self._state.words)
        parts: list[list[tuple[float, str]]] = []
        for name, stream in streams.items():
            if not stream.pending:
                continue
            count = _count_until(stream.pending, until)
            said = _apart(stream.pending[:count], stream.piece)
            if said.verdict is not None:
                verdicts[stream.host] = said.verdict
            if said.words:
                words[stream.host] = (*words.get(stream.host, ()), *said.words)
            prefix = f"{stream.host} | " if self.several else ""
            parts.append([(event.timestamp, f"{prefix}{event.message}\n") for event in said.lines])
            streams[name] = replace(stream, pending=stream.pending[count:], piece=said.piece)
        merged = heapq.merge(*parts, key=lambda line: line[0]) if len(parts) > 1 else parts[0]
        content = "".join(text for _, text in merged).encode("utf-8", "replace")
        self._state = _State(streams, verdicts, words, self._state.given + len(content))
        return content


@dataclass(frozen=True)
class Tail:
    """The end of one host's log.

    Args:
        lines: the script's, in their order.
        whole: whether that is all it printed.
        verdict: the agent's last line.
        words: what else the agent said.
    """

    lines: tuple[str, ...]
    whole: bool
    verdict: dict[str, Any] | None
    words: tuple[str, ...] = ()


def read_tails(aws: Aws, kind: SageMakerKind, name: str, *, pages: int = 1) -> dict[str, Tail]:
    """The end of each host's log, by host: a page holds up to 10,000 lines.

    A host that began anew has several streams; its newest counts.
    """
    newest = {_host_of(one.name): one.name for one in aws.log_streams(_GROUPS[kind], f"{name}/")}
    return {host: _tail(aws, _GROUPS[kind], stream, pages) for host, stream in sorted(newest.items())}


def _tail(aws: Aws, group: str, stream: str, pages: int) -> Tail:
    events: list[LogEvent] = []
    token: str | None = None
    whole = False
    for _ in range(pages):
        page, before = aws.last_log_events(group, stream, token)
        events[:0] = page
        whole = not page or before in (None, token)
        if whole:
            break
        token = before
    said = _apart(tuple(events), "")
    return Tail(tuple(event.message for event in said.lines), whole, said.verdict, said.words)


def _host_of(stream: str) -> str:
    found = _HOST.search(stream)
    return found[1] if found else stream.rpartition("/")[2]


def _count_until(events: tuple[LogEvent, ...], until: float) -> int:
    if events[-1].timestamp <= until:
        return len(events)
    # Times within a stream may run back a little; its own order goes before.
    return next(index for index, event in enumerate(events) if event.timestamp > until)


@dataclass(frozen=True)
class _Said:
    """Some lines of a log, the script's and the agent's apart.

    Args:
        lines: the script's own.
        piece: the beginning of a verdict that is not whole yet.
        verdict: the verdict, if it was among them.
        words: what else the agent said.
    """

    lines: list[LogEvent]
    piece: str
    verdict: dict[str, Any] | None
    words: tuple[str, ...]


def _apart(events: tuple[LogEvent, ...], piece: str) -> _Said:
    """The script's lines and the agent's.

    A long line may come in several events (Docker cuts after 16 KiB): its pieces are joined until they are JSON.
    """
    lines: list[LogEvent] = []
    words: list[str] = []
    verdict: dict[str, Any] | None = None
    for event in events:
        if not piece and event.message.startswith(WORDS_MARK):
            words.append(event.message.removeprefix(WORDS_MARK))
            continue
        begins = event.message.startswith(VERDICT_MARK)
        if not piece and not begins:
            lines.append(event)
            continue
        text = event.message if begins else piece + event.message
        found, unfinished = _verdict_in(text)
        verdict = found or verdict
        piece = text if unfinished else ""
        if found is None and not unfinished:
            # The script's own words after all.
            lines.append(LogEvent(event.timestamp, text))
    return _Said(lines, piece, verdict, tuple(words))


def _verdict_in(text: str) -> tuple[dict[str, Any] | None, bool]:
    """The verdict in a line, and whether the line wants more."""
    written = text.removeprefix(VERDICT_MARK).strip()
    try:
        document = json.loads(written)
    except json.JSONDecodeError as error:
        # What is merely cut off fails at its end, or within the text that was cut.
        cut = error.pos >= len(written) or error.msg.startswith(
            ("Unterminated", "Expecting value", "Invalid \\u")
        )
        return None, written.startswith("{") and cut and len(text) < _LONGEST_VERDICT
    is_verdict = isinstance(document, dict) and "outcome" in document
    return (document, False) if is_verdict else (None, False)
