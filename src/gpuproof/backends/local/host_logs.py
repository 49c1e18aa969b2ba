"""Reads the output of a run's hosts on this machine: that of one as it is, that of several line by line."""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from gpuproof.agent.output import TIMES_INTERVAL_S
from gpuproof.agent.paths import RunPaths
from gpuproof.backends.hosts import line_prefix

_CHUNK = 1 << 20
_LONGEST_LINE = 1 << 16
"""Bytes of a line without an end, such as a progress bar's, after which it is shown without waiting for the end."""


class LogReader(Protocol):
    """Reads what was appended to the logs of a run; after an interrupt, the next call continues at the same position."""

    bytes_read: int
    """Bytes of output so far, including those that were left out at the beginning."""

    def read(self, *, final: bool = False) -> Iterator[bytes]:
        """Yield all new output.

        Args:
            final: whether no more output follows, so that a last line without an end is complete.
        """
        ...


def open_logs(paths: RunPaths, hosts: Sequence[str], *, since: float | None = None) -> LogReader:
    """A reader of the logs of some hosts.

    Args:
        hosts: with several of them, each line starts with its host's name.
        since: leave out what was printed before this time, in seconds since the epoch; to a second.
    """
    if len(hosts) == 1:
        return SingleLog(paths.log(hosts[0]), _start(paths, hosts[0], since))
    return MergedLogs(paths, {host: _start(paths, host, since) for host in hosts})


class SingleLog:
    """Reads the log of one host, byte by byte.

    Args:
        offset: bytes to skip at the beginning.
    """

    def __init__(self, path: Path, offset: int = 0) -> None:
        self._path = path
        self.bytes_read = offset

    def read(self, *, final: bool = False) -> Iterator[bytes]:  # noqa: ARG002 - incomplete lines are shown at once
        try:
            with self._path.open("rb", buffering=0) as file:
                file.seek(self.bytes_read)
                while content := file.read(_CHUNK):
                    self.bytes_read += len(content)
                    yield content
        except FileNotFoundError:
            return


class MergedLogs:
    """Reads the logs of several hosts: complete lines in the order of time, each with its host's name.

    What the hosts printed within the same second may change places.

    Args:
        starts: the hosts in their order, each with the number of bytes to skip in its log.
    """

    def __init__(self, paths: RunPaths, starts: Mapping[str, int]) -> None:
        self._paths = paths
        self._positions = dict(starts)
        self.bytes_read = sum(starts.values())

    def read(self, *, final: bool = False) -> Iterator[bytes]:
        parts = [self._blocks(host, final=final) for host in self._positions]
        # Of blocks with the same time, the first host's are first.
        for block in heapq.merge(*parts, key=lambda block: block.time):
            self._positions[block.host] = block.end
            self.bytes_read += len(block.content)
            yield block.content

    def _blocks(self, host: str, *, final: bool) -> Iterator[_Block]:
        """New complete lines of one host, in blocks of about the same time."""
        prefix = line_prefix(host).encode()
        position = self._positions[host]
        times = _Times(self._paths.log_times(host), position)
        rest = b""
        try:
            with self._paths.log(host).open("rb", buffering=0) as file:
                file.seek(position)
                while content := file.read(min(_CHUNK, times.next_change(position + len(rest)))):
                    moment = times.at(position + len(rest))
                    lines, rest = _complete_lines(rest + content)
                    if len(rest) > _LONGEST_LINE:
                        lines, rest = lines + rest, b""
                    if lines:
                        position += len(lines)
                        yield _Block(moment, host, _prefixed(lines, prefix), position)
        except FileNotFoundError:
            return
        if final and rest:
            yield _Block(times.at(position), host, _prefixed(rest, prefix), position + len(rest))


@dataclass(frozen=True)
class _Block:
    """Some lines of one host.

    Args:
        end: where they end in the host's log, in bytes.
    """

    time: float
    host: str
    content: bytes
    end: int


class _Times:
    """When a log had which length: the notes of `TimedSink` from a position on."""

    def __init__(self, path: Path, position: int) -> None:
        notes = list(read_times(path))
        first = max((index for index, (_, length) in enumerate(notes) if length <= position), default=0)
        self._notes = notes[first:]

    def at(self, position: int) -> float:
        """When the byte at a position was printed."""
        while len(self._notes) > 1 and self._notes[1][1] <= position:
            del self._notes[0]
        return self._notes[0][0] if self._notes else 0.0

    def next_change(self, position: int) -> int:
        """The number of bytes from a position on that were printed at about the same time."""
        self.at(position)
        return self._notes[1][1] - position if len(self._notes) > 1 else _CHUNK


def length_at(times: Path, since: float) -> int | None:
    """The length of a log before what was printed from a time on; None if nothing was printed since.

    Args:
        times: the notes of `TimedSink`; without them, the whole log counts as new.
        since: in seconds since the epoch.
    """
    if not times.exists():
        return 0
    # What was printed within the interval after a note has no note of its own.
    return next((length for time, length in read_times(times) if time >= since - TIMES_INTERVAL_S), None)


def _start(paths: RunPaths, host: str, since: float | None) -> int:
    if since is None:
        return 0
    length = length_at(paths.log_times(host), since)
    log = paths.log(host)
    return length if length is not None else log.stat().st_size if log.exists() else 0


def read_times(times: Path) -> Iterator[tuple[float, int]]:
    """The notes of `TimedSink`: seconds since the epoch, and the length of the log in bytes."""
    try:
        lines = times.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        time, _, length = line.partition(" ")
        if length.isdecimal():
            yield float(time), int(length)


def _complete_lines(content: bytes) -> tuple[bytes, bytes]:
    end = content.rfind(b"\n") + 1
    return content[:end], content[end:]


def _prefixed(lines: bytes, prefix: bytes) -> bytes:
    inner = lines[:-1] if lines.endswith(b"\n") else lines
    if b"\r" in inner:
        # A progress bar returns to the beginning of the line and would overwrite the host's name.
        inner = re.sub(rb"\r(?!\n|\Z)", b"\r" + prefix, inner)
    return prefix + inner.replace(b"\n", b"\n" + prefix) + b"\n"
