"""One pass over a log of any size: which known errors are in it, where, how often, and what else it gives away."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

from gpuproof.agent.failure import error_line
from gpuproof.explain.normalize import clean
from gpuproof.explain.patterns import KnownError, LogFact, Sign, compiled, known_errors, log_facts, signs
from gpuproof.explain.prefilter import Prefilter

BLOCK = 1 << 20
"""Bytes that are looked at together."""
AHEAD = 1 << 16
"""Bytes behind a line that are at hand when it is looked at: what explains it may follow."""
BEHIND = 1 << 14
"""Bytes before a line that are kept."""
LONGEST = 8192
"""Bytes of a line that are looked at; of a longer one, a window around the clue."""
AROUND = 25
"""Lines before and behind a line among which its context is looked for."""

_SOURCE_LINE = re.compile(r"\s+(?:raise |return |assert |if |f?[\"'])")
"""Source that a traceback shows: the text is in it, and was not said by it."""
_TRACEBACK = b"Traceback (most recent call last)"


@dataclass
class Sighting:
    """A known error in a log.

    Attributes:
        groups: what the pattern's named groups caught at the first place where it was seen.
        line: number of that line, from 1.
        text: that line, cleaned.
        last_line: number of the last one.
        count: how many lines.
    """

    error: KnownError
    groups: dict[str, str]
    line: int
    text: str
    last_line: int
    count: int = 1
    log: str | None = None


@dataclass
class Scan:
    """What was seen in a log.

    Attributes:
        sightings: by code, in the order of their first lines.
        facts: what the log says about its machine, by name; the first of a kind counts.
        failure: the last line that shows a failure, and its number; a traceback's is the line that names its
            exception.
        lines: how many the log has.
    """

    sightings: dict[str, Sighting] = field(default_factory=dict)
    facts: dict[str, str] = field(default_factory=dict)
    failure: tuple[int, str] | None = None
    lines: int = 0


def scan_lines(lines: Iterable[str | bytes], log: str | None = None) -> Scan:
    """Look through lines, with or without their line ends."""
    return scan_chunks(_joined(lines), log)


def scan_chunks(chunks: Iterable[bytes], log: str | None = None) -> Scan:
    """Look through a log, in pieces of any size; holds about a megabyte of it at a time.

    Args:
        log: its name, for the sightings.
    """
    window = _Window(log)
    for chunk in chunks:
        window.feed(chunk)
    return window.close()


class _Window:
    """The part of the log that is at hand."""

    def __init__(self, log: str | None) -> None:
        self._log = log
        self._buffer = b""
        self._done = 0
        self._line = 1  # of the byte at self._done
        self._index = _index()
        self._scan = Scan()

    def feed(self, chunk: bytes) -> None:
        self._buffer += chunk
        if len(self._buffer) - self._done < BLOCK + AHEAD:
            return
        limit = len(self._buffer) - AHEAD
        end = 1 + max(
            self._buffer.rfind(b"\n", self._done, limit), self._buffer.rfind(b"\r", self._done, limit)
        )
        self._look(end or limit)
        kept = max(0, self._done - BEHIND)
        self._buffer, self._done = self._buffer[kept:], self._done - kept

    def close(self) -> Scan:
        ends_open = self._buffer[self._done :] != b"" and not self._buffer.endswith(b"\n")
        self._look(len(self._buffer))
        self._scan.lines = self._line - 1 + ends_open
        return self._scan

    def _look(self, end: int) -> None:
        buffer, counted, line = self._buffer, self._done, self._line
        start = stop = self._done
        clues: set[bytes] = set()
        for place, possible in self._index.prefilter.places(buffer, self._done, end):
            if place >= stop:
                self._examine(start, stop, line, clues)
                start, stop = _segment(buffer, place)
                line += buffer.count(b"\n", counted, start)
                counted, clues = start, set()
            clues.update(possible)
        self._examine(start, stop, line, clues)
        self._line = line + buffer.count(b"\n", counted, end)
        self._done = end

    def _examine(self, start: int, stop: int, line: int, clues: set[bytes]) -> None:
        raw = self._buffer[start:stop]
        candidates = self._index.candidates(clue for clue in clues if clue in raw)
        if not candidates:
            return
        text = clean(raw)
        around: list[str] | None = None
        for candidate in candidates:
            match = compiled(candidate.pattern).search(text)
            if match is None:
                continue
            if isinstance(candidate, LogFact):
                self._scan.facts.setdefault(candidate.fact, match[1])
                continue
            if isinstance(candidate, Sign):
                self._failed(start, stop, line, text, match)
                continue
            if _SOURCE_LINE.match(text):
                continue
            known = self._scan.sightings.get(candidate.code)
            if known is not None:
                known.count += 1
                known.last_line = line
                continue
            if (candidate.near or candidate.also) and around is None:
                around = _around(self._buffer, start, stop, text)
            groups = _groups(candidate, match, around or [])
            if groups is not None:
                self._scan.sightings[candidate.code] = Sighting(
                    candidate, groups, line, _line_of(text, match), line, log=self._log
                )

    def _failed(self, start: int, stop: int, line: int, text: str, match: re.Match[str]) -> None:
        if _TRACEBACK not in self._buffer[start:stop]:
            self._scan.failure = self._scan.failure or (line, _line_of(text, match))
            return
        following = self._buffer[stop : stop + AHEAD].splitlines()[1:]
        lines = text.split("\n") + [clean(raw) for raw in following]
        said = error_line("\n".join(lines))
        if said is not None:
            self._scan.failure = (line + lines.index(said), said)


Candidate = KnownError | LogFact | Sign


class _Index(NamedTuple):
    prefilter: Prefilter
    by_clue: dict[bytes, tuple[tuple[int, Candidate], ...]]

    def candidates(self, clues: Iterable[bytes]) -> list[Candidate]:
        """What may be said where these clues are, in the order of the tables."""
        found = {rank: candidate for clue in clues for rank, candidate in self.by_clue[clue]}
        return [found[rank] for rank in sorted(found)]


@cache
def _index() -> _Index:
    by_clue: dict[bytes, list[tuple[int, Candidate]]] = {}
    for rank, candidate in enumerate((*known_errors(), *log_facts(), *signs())):
        for clue in candidate.clues:
            by_clue.setdefault(clue.encode(), []).append((rank, candidate))
    return _Index(
        Prefilter(clue.decode() for clue in by_clue),
        {clue: tuple(candidates) for clue, candidates in by_clue.items()},
    )


def _segment(buffer: bytes, place: int) -> tuple[int, int]:
    """The line around a place, or what carriage returns and the limit leave of it."""
    low, high = max(0, place - LONGEST // 2), min(len(buffer), place + LONGEST // 2)
    begin = 1 + max(buffer.rfind(b"\n", low, place), buffer.rfind(b"\r", low, place))
    ends = [at for at in (buffer.find(b"\n", place, high), buffer.find(b"\r", place, high)) if at >= 0]
    return begin or low, min(ends, default=high)


def _around(buffer: bytes, start: int, stop: int, text: str) -> list[str]:
    """The line itself, those behind it, then those before it, nearest first."""
    behind = buffer[stop : stop + LONGEST].splitlines()[: AROUND + 1]
    before = buffer[max(0, start - LONGEST) : start].splitlines()[-AROUND:]
    return [text, *map(clean, behind), *map(clean, reversed(before))]


def _groups(error: KnownError, match: re.Match[str], around: list[str]) -> dict[str, str] | None:
    """What the patterns caught; `None` where the context that it needs is not there."""
    found = _caught(match)
    for pattern in filter(None, (error.near, error.also)):
        other = next((hit for line in around if (hit := compiled(pattern).search(line))), None)
        if other is not None:
            found = {**_caught(other), **found}
        elif pattern is error.near:
            return None
    return found


def _caught(match: re.Match[str]) -> dict[str, str]:
    caught: Mapping[str, str | None] = match.groupdict()
    return {name: value.strip() for name, value in caught.items() if value}


def _line_of(text: str, match: re.Match[str]) -> str:
    begin = text.rfind("\n", 0, match.start()) + 1
    end = text.find("\n", match.end())
    return text[begin : end if end >= 0 else None].strip()


def _joined(lines: Iterable[str | bytes]) -> Iterator[bytes]:
    pending: list[bytes] = []
    size = 0
    for line in lines:
        raw = line.encode("utf-8", "replace") if isinstance(line, str) else line
        pending.append(raw if raw.endswith(b"\n") else raw + b"\n")
        size += len(raw)
        if size >= BLOCK:
            yield b"".join(pending)
            pending, size = [], 0
    yield b"".join(pending)
