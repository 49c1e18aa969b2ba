"""Searches a log of any size in one pass for known errors, facts about its machine and signs of failure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

from gpuproof.explain.normalize import normalize_line
from gpuproof.explain.patterns import (
    FailureSign,
    KnownError,
    LogFact,
    compile_pattern,
    failure_signs,
    known_errors,
    log_facts,
)
from gpuproof.explain.prefilter import Prefilter
from gpuproof.explain.traceback import PASSES_ON, Raised, read_traceback, without_traceback

BLOCK_BYTES = 1 << 20
"""Size of the blocks that are scanned."""
LOOKAHEAD_BYTES = 1 << 16
"""Bytes kept after a line: the lines that explain it may follow."""
LOOKBEHIND_BYTES = 1 << 14
"""Bytes kept before a line."""
MAX_LINE_BYTES = 8192
"""Bytes examined per line; of a longer line, a window around the clue."""
CONTEXT_LINES = 25
"""Lines before and after a line that are searched for its context."""

_SOURCE_LINE = re.compile(r"\s+(?:raise |return |assert |if |f?[\"'])")
"""Source code quoted by a traceback: it contains the message without having printed it."""
_LAST_LINES = 12
"""Lines at the end of a log among which an exception without a traceback shows a failure."""
_EXCEPTION = re.compile(
    r"(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*(?:Error|Exception|Interrupt|Failure|Fault)(?:: .*|$)|panic: .+|[Ff]atal error: .+"
)
_LAST_EXCEPTION = re.compile(r"(?:[A-Za-z_]\w*\.)+[A-Z]\w+: .+")
"""An exception of any name, which only counts in the last line."""
_ERROR_LINE = re.compile(
    r"(?!ERROR: pip's dependency resolver)(?:\[?(?:ERROR|FATAL|CRITICAL|Error|error|fatal|FAILED|E)\]?(?::| -| {1,2}\|)|[\w./+-]+: (?:fatal )?(?:error|ERROR|fatal)[: ]|"
    r"(?:ERROR|FATAL|CRITICAL)\s+[\w.:/-]+:|make(?:\[\d+\])?: \*\*\*|CMake Error|(?:Failed|Unable|Could not|Cannot) (?:to )?\w+ |\[[EF]:\w+|[│╷] ?Error:)\s*\S.{2,}"
)
"""A line of the level error of any program, which only counts at the end of a log."""
_TRACEBACK = b"Traceback (most recent call last)"
_KEPT_TRACEBACKS = 16
_FRAME = re.compile(r'File "(?P<path>[^"<][^"]*)", line \d+(?:, in (?P<function>\w+))?')
_PACKAGE = re.compile(
    r"(?:(?:site|dist)-packages|\.djl\.ai/python/[\w.-]+|huggingface/modules)/(?P<name>\w+)[/.]"
)
INSTALLED_CODE = "installed_code"
"""Advice of errors that count only if an installed package raised them."""
IMPORTER_ADVICE = {"module", "cuda_library", "symbol_owner", "argument", "moved", INSTALLED_CODE}
"""Advice that needs the group `importer`: the installed package whose file the traceback ends in."""
_FAILURE_LINES = 6
"""Lines from the exception on that belong to a failure: NCCL's error is in the second one."""


@dataclass
class Occurrence:
    """A known error in a log.

    Attributes:
        groups: values of the pattern's named groups in the first matching line.
        line: number of that line, from 1.
        text: that line, normalized.
        last_line: number of the last matching line.
        count: number of matching lines.
        failure: text of the first failure at or after that line, only of errors that count `error-if-failed`; `None`
            if no failure follows.
    """

    error: KnownError
    groups: dict[str, str]
    line: int
    text: str
    last_line: int
    count: int = 1
    log: str | None = None
    failure: str | None = None


@dataclass
class Scan:
    """Results of scanning a log.

    Attributes:
        occurrences: known errors by code, in the order of their first lines.
        facts: facts about the machine by name; the first value of each counts.
        failure: number and text of the last line that shows a failure; for a traceback, the line that names the
            exception.
        lines: number of lines in the log.
        raised: line numbers and exceptions of tracebacks; of many, the first and the last ones.
        log: name of the log.
    """

    occurrences: dict[str, Occurrence] = field(default_factory=dict)
    facts: dict[str, str] = field(default_factory=dict)
    failure: tuple[int, str] | None = None
    lines: int = 0
    raised: list[tuple[int, Raised]] = field(default_factory=list)
    log: str | None = None


def is_exception(line: str) -> bool:
    """Whether a line names an exception, such as `ValueError: no data`."""
    return bool(_EXCEPTION.fullmatch(line.rstrip()) or _LAST_EXCEPTION.fullmatch(line.rstrip()))


def scan_lines(lines: Iterable[str | bytes], log: str | None = None) -> Scan:
    """Scan lines, with or without their line ends."""
    return scan_chunks(_join(lines), log)


def scan_chunks(chunks: Iterable[bytes], log: str | None = None) -> Scan:
    """Scan a log in chunks of any size, with about a megabyte of it in memory at a time."""
    window = _Window(log)
    for chunk in chunks:
        window.feed(chunk)
    return window.close()


class _Window:
    """The part of the log that is in memory."""

    def __init__(self, log: str | None) -> None:
        self._log = log
        self._buffer = b""
        self._done = 0
        self._line = 1  # of the byte at self._done
        self._index = _index()
        self._scan = Scan(log=log)

    def feed(self, chunk: bytes) -> None:
        self._buffer += chunk
        if len(self._buffer) - self._done < BLOCK_BYTES + LOOKAHEAD_BYTES:
            return
        limit = len(self._buffer) - LOOKAHEAD_BYTES
        end = 1 + max(
            self._buffer.rfind(b"\n", self._done, limit), self._buffer.rfind(b"\r", self._done, limit)
        )
        self._scan_until(end or limit)
        kept = max(0, self._done - LOOKBEHIND_BYTES)
        self._buffer, self._done = self._buffer[kept:], self._done - kept

    def close(self) -> Scan:
        ends_open = self._buffer[self._done :] != b"" and not self._buffer.endswith(b"\n")
        self._scan_until(len(self._buffer))
        self._scan.lines = self._line - 1 + ends_open
        if self._scan.failure is None and (final := self._final_exception()) is not None:
            line, following = final
            self._scan.failure = (line, following[0])
            if is_exception(following[0]):
                self._scan.raised.append((line, without_traceback(following)))
            self._end_in(following[0])
        return self._scan

    def _final_exception(self) -> tuple[int, list[str]] | None:
        """Number of the line of an exception or error that ends the log, such as the tail of a longer one, and its last lines."""
        lines = self._buffer[-LOOKBEHIND_BYTES:].splitlines()
        tail = [normalize_line(raw).rstrip() for raw in lines[-_LAST_LINES:]]
        last = max((index for index, text in enumerate(tail) if text.strip()), default=None)
        exceptions = [
            index
            for index, text in enumerate(tail)
            if _EXCEPTION.fullmatch(text) or (index == last and _LAST_EXCEPTION.fullmatch(text))
        ]
        errors = [index for index, text in enumerate(tail) if _ERROR_LINE.fullmatch(text)]
        found = max(exceptions or errors, default=None)
        return None if found is None else (self._scan.lines - len(tail) + found + 1, tail[found:])

    def _scan_until(self, end: int) -> None:
        buffer, counted, line = self._buffer, self._done, self._line
        start = stop = self._done
        clues: set[bytes] = set()
        for offset, possible in self._index.prefilter.find(buffer, self._done, end):
            if offset >= stop:
                self._match_line(start, stop, line, clues)
                start, stop = _line_bounds(buffer, offset)
                line += buffer.count(b"\n", counted, start)
                counted, clues = start, set()
            clues.update(possible)
        self._match_line(start, stop, line, clues)
        self._line = line + buffer.count(b"\n", counted, end)
        self._done = end

    def _match_line(self, start: int, stop: int, line: int, clues: set[bytes]) -> None:
        raw = self._buffer[start:stop]
        candidates = self._index.candidates(clue for clue in clues if clue in raw)
        if not candidates:
            return
        text = normalize_line(raw)
        around: list[str] | None = None
        for candidate in candidates:
            match = compile_pattern(candidate.pattern).search(text)
            if match is None:
                continue
            if isinstance(candidate, LogFact):
                self._scan.facts.setdefault(candidate.fact, match[1])
                continue
            if isinstance(candidate, FailureSign):
                self._record_failure(start, stop, line, text, match)
                continue
            if _SOURCE_LINE.match(text):
                continue
            known = self._scan.occurrences.get(candidate.code)
            if known is not None:
                known.count += 1
                known.last_line = line
                if candidate.when != "error-if-failed" or known.failure is not None:
                    continue
            if (candidate.near or candidate.also) and around is None:
                around = _surrounding_lines(self._buffer, start, stop, text)
            groups = _groups(candidate, match, around or [])
            if groups is not None:
                if IMPORTER_ADVICE.intersection(candidate.needs):
                    groups["importer"] = self._importer(start, text[: match.start()])
                    if INSTALLED_CODE in candidate.needs and not groups["importer"]:
                        continue
                count = known.count if known is not None else 1
                self._scan.occurrences[candidate.code] = Occurrence(
                    candidate, groups, line, _line_of(text, match), line, count, self._log
                )

    def _importer(self, start: int, before: str) -> str:
        """The installed package whose file the traceback ends in, above a line; empty if it is the user's file."""
        above = self._buffer[max(0, start - MAX_LINE_BYTES) : start].splitlines()[-CONTEXT_LINES:]
        for line in reversed([*map(normalize_line, above), *before.split("\n")]):
            if (frame := _FRAME.search(line)) and frame["function"] not in PASSES_ON:
                package = _PACKAGE.search(frame["path"])
                return package["name"] if package else ""
        return ""

    def _record_failure(self, start: int, stop: int, line: int, text: str, match: re.Match[str]) -> None:
        if _TRACEBACK not in self._buffer[start:stop]:
            self._scan.failure = self._scan.failure or (line, _line_of(text, match))
            self._end_in(_line_of(text, match))
            return
        # A progress bar, which ends in a carriage return, counts as one line with the text that follows it.
        following = [
            raw.rstrip(b"\r").rpartition(b"\r")[2]
            for raw in self._buffer[stop : stop + LOOKAHEAD_BYTES].split(b"\n")[1:]
        ]
        lines = text.split("\n") + [normalize_line(raw) for raw in following]
        exception = read_traceback(lines)
        self._end_in(_raised(lines))
        if exception is not None:
            self._scan.failure = (line + exception.offset, exception.text)
            self._scan.raised.append((line + exception.offset, exception))
            del self._scan.raised[_KEPT_TRACEBACKS // 2 : -_KEPT_TRACEBACKS // 2]
        elif self._scan.failure is None:
            self._scan.failure = (line, _line_of(text, match))  # the log ends inside the traceback

    def _end_in(self, failure: str) -> None:
        """Record the failure that follows the errors that count if one does."""
        for occurrence in self._scan.occurrences.values():
            if occurrence.error.when == "error-if-failed" and occurrence.failure is None:
                occurrence.failure = failure


Candidate = KnownError | LogFact | FailureSign


class _Index(NamedTuple):
    prefilter: Prefilter
    by_clue: dict[bytes, tuple[tuple[int, Candidate], ...]]

    def candidates(self, clues: Iterable[bytes]) -> list[Candidate]:
        """The patterns that these clues belong to, in the order of the tables."""
        found = {rank: candidate for clue in clues for rank, candidate in self.by_clue[clue]}
        return [found[rank] for rank in sorted(found)]


@cache
def _index() -> _Index:
    by_clue: dict[bytes, list[tuple[int, Candidate]]] = {}
    for rank, candidate in enumerate((*known_errors(), *log_facts(), *failure_signs())):
        for clue in candidate.clues:
            by_clue.setdefault(clue.encode(), []).append((rank, candidate))
    return _Index(
        Prefilter(clue.decode() for clue in by_clue),
        {clue: tuple(candidates) for clue, candidates in by_clue.items()},
    )


def _raised(lines: list[str]) -> str:
    """The exception of the traceback at the start of the lines, with some lines after it."""
    for index, line in enumerate(lines[1:], start=1):
        if line and not line[0].isspace() and (_EXCEPTION.match(line) or _LAST_EXCEPTION.fullmatch(line)):
            return "\n".join(lines[index : index + _FAILURE_LINES])
    return lines[0]


def _line_bounds(buffer: bytes, offset: int) -> tuple[int, int]:
    """The start and end of the line around an offset, limited by carriage returns and the maximum length."""
    low, high = max(0, offset - MAX_LINE_BYTES // 2), min(len(buffer), offset + MAX_LINE_BYTES // 2)
    begin = 1 + max(buffer.rfind(b"\n", low, offset), buffer.rfind(b"\r", low, offset))
    ends = [at for at in (buffer.find(b"\n", offset, high), buffer.find(b"\r", offset, high)) if at >= 0]
    return begin or low, min(ends, default=high)


def _surrounding_lines(buffer: bytes, start: int, stop: int, text: str) -> list[str]:
    """The line itself, the lines after it, the lines before it, nearest first, and the line with all after it as one text."""
    after = buffer[stop : stop + MAX_LINE_BYTES].splitlines()[: CONTEXT_LINES + 1]
    before = buffer[max(0, start - MAX_LINE_BYTES) : start].splitlines()[-CONTEXT_LINES:]
    following = [text, *map(normalize_line, after)]
    return [*following, *map(normalize_line, reversed(before)), "\n".join(following)]


def _groups(error: KnownError, match: re.Match[str], around: list[str]) -> dict[str, str] | None:
    """The values of all named groups; `None` if the required context is missing."""
    groups = _named_groups(match)
    for pattern in filter(None, (error.near, error.also)):
        other = next((hit for line in around if (hit := compile_pattern(pattern).search(line))), None)
        if other is not None:
            groups = {**_named_groups(other), **groups}
        elif pattern is error.near:
            return None
    return groups


def _named_groups(match: re.Match[str]) -> dict[str, str]:
    groups: Mapping[str, str | None] = match.groupdict()
    return {name: value.strip() for name, value in groups.items() if value}


def _line_of(text: str, match: re.Match[str]) -> str:
    begin = text.rfind("\n", 0, match.start()) + 1
    end = text.find("\n", match.end())
    return text[begin : end if end >= 0 else None].strip()


def _join(lines: Iterable[str | bytes]) -> Iterator[bytes]:
    pending: list[bytes] = []
    size = 0
    for line in lines:
        raw = line.encode("utf-8", "replace") if isinstance(line, str) else line
        pending.append(raw if raw.endswith(b"\n") else raw + b"\n")
        size += len(raw)
        if size >= BLOCK_BYTES:
            yield b"".join(pending)
            pending, size = [], 0
    yield b"".join(pending)
