"""Resource use of a process tree, from one pass over `/proc`; processes may end at any moment."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

_FIRST_PID_NAMESPACE = "pid:[4026531836]"
"""The kernel's own number for it: PROC_PID_INIT_INO in include/linux/proc_ns.h."""
ONE_CORE = 0.85
"""A process that uses this many cores counts as keeping a whole one busy; the rest is noise and rounding."""
_FORGET_AFTER = 60
"""Number of passes after which processes outside the tree are read again: ids are reused."""


@dataclass(frozen=True)
class ProcessReading:
    """One process.

    Args:
        name: the kernel's short name, at most 15 bytes.
        cpu_seconds: user and system time since its start, without its children's.
        waits_for_disk: it was in uninterruptible sleep, nearly always for a disk or a network file system.
    """

    pid: int
    name: str
    cpu_seconds: float
    waits_for_disk: bool = False


@dataclass(frozen=True)
class TreeReading:
    """One reading of a process and its descendants.

    Args:
        rss: resident bytes; shared memory counts once per process.
        read_bytes: read from storage so far, not from the page cache; `None` without permission.
    """

    processes: tuple[ProcessReading, ...]
    cpu_seconds: float
    rss: int
    read_bytes: int | None
    written_bytes: int | None

    @property
    def pids(self) -> frozenset[int]:
        """The ids of the tree's processes."""
        return frozenset(process.pid for process in self.processes)

    @property
    def busiest(self) -> ProcessReading | None:
        """The process with the most CPU time so far."""
        return max(self.processes, key=lambda process: process.cpu_seconds, default=None)


@dataclass(frozen=True)
class BusyProcess:
    """A process and how many cores it kept busy."""

    pid: int
    name: str
    cores: float


@dataclass(frozen=True)
class CpuUse:
    """CPU use of a tree between two readings.

    Args:
        cores: cores kept busy by the whole tree, 1.0 being one of them all the time.
        saturated: number of processes that used a whole core or more.
        waits_for_disk: number of processes waiting for a disk at the second reading.
    """

    cores: float
    busiest: BusyProcess | None
    saturated: int
    waits_for_disk: int


@dataclass(frozen=True)
class ShmReading:
    """`/dev/shm`, in bytes: PyTorch's DataLoader workers pass their batches through it."""

    used: int
    total: int


class ProcessTree:
    """Reads one or several process trees repeatedly at low cost.

    Args:
        roots: the process at the top of each tree; may be changed between two readings, by `set_roots`.
        left_out: processes that do not count, such as one that monitors its own descendants; their children count.
        keep_orphans: whether processes that were in a tree stay in it when their parents end, and after the root's end. For trees
            without a subreaper, whose orphans go to process 1.

    `/proc/PID/task/*/children` costs a read per thread, and training processes have hundreds of threads. This reads
    `stat` of each process instead and remembers the processes outside the tree, which never join it: orphans are
    adopted by an ancestor, and the root is expected to be a subreaper. Where it is not, orphans leave its tree, or are kept.
    """

    def __init__(
        self,
        roots: int | Iterable[int],
        proc: str = "/proc",
        *,
        left_out: Iterable[int] = (),
        keep_orphans: bool = False,
    ) -> None:
        self._roots = frozenset([roots]) if isinstance(roots, int) else frozenset(roots)
        self._left_out = frozenset(left_out)
        self._proc = proc
        self._outside: set[int] = set()
        self._outside_of = self._roots
        self._looks = 0
        self._keeps_orphans = keep_orphans
        self._members: dict[int, int] = {}

    def set_roots(self, roots: Iterable[int], left_out: Iterable[int] | None = None) -> None:
        """Replace the roots, and what is left out unless it is `None`; any thread may do so."""
        if left_out is not None:
            self._left_out = frozenset(left_out)
        self._roots = frozenset(roots)

    def read(self) -> TreeReading | None:
        """Read the trees once; `None` if every root has ended, or without `/proc`."""
        try:
            names = os.listdir(self._proc)  # noqa: PTH208 - once a second: text, not paths
        except OSError:
            return None
        listed = {int(name) for name in names if name.isdigit()}
        known = self._roots
        if not (known | self._members.keys()) & listed:
            return None
        self._looks += 1
        # Processes that were outside the trees of other roots may belong to these.
        is_known = self._outside_of is known and self._looks % _FORGET_AFTER != 0
        outside: set[int] = self._outside & listed if is_known else set()
        stats = {pid: stat for pid in listed - outside if (stat := self._stat(pid)) is not None}
        roots = (known & stats.keys()) | self._orphans(stats)
        if not roots:
            return None
        children = _children(stats.values())
        tree = _below(roots, children)
        # A process whose parent ended between two reads has no place yet: it is read again, not put outside.
        outside |= _below({0, *outside}, children) & (stats.keys() - tree)
        self._outside, self._outside_of = outside, known
        if self._keeps_orphans:
            self._members = {pid: stats[pid].started for pid in tree}
        return self._sum([stats[pid] for pid in sorted(tree - self._left_out)])

    def _orphans(self, stats: Mapping[int, _Stat]) -> set[int]:
        """Members of the trees that are still running; an id may have been given to another process."""
        return {
            pid for pid, started in self._members.items() if pid in stats and stats[pid].started == started
        }

    def _sum(self, stats: list[_Stat]) -> TreeReading:
        io = [counters for stat in stats if (counters := self._io(stat.pid)) is not None]
        return TreeReading(
            processes=tuple(ProcessReading(s.pid, s.name, s.own_seconds, s.state == "D") for s in stats),
            cpu_seconds=sum(s.own_seconds + s.children_seconds for s in stats),
            rss=sum(s.rss for s in stats),
            read_bytes=sum(read for read, _ in io) if io else None,
            written_bytes=sum(written for _, written in io) if io else None,
        )

    def _stat(self, pid: int) -> _Stat | None:
        text = _read(f"{self._proc}/{pid}/stat")
        return None if text is None else _parse_stat(pid, text)

    def _io(self, pid: int) -> tuple[int, int] | None:
        text = _read(f"{self._proc}/{pid}/io")
        return None if text is None else _parse_io(text)


def cpu_between(before: TreeReading, after: TreeReading, seconds: float) -> CpuUse | None:
    """Return the tree's CPU use between two readings; `None` if no time has passed."""
    if seconds <= 0:
        return None
    earlier = {process.pid: process.cpu_seconds for process in before.processes}
    rates = [
        BusyProcess(p.pid, p.name, max(p.cpu_seconds - earlier.get(p.pid, 0.0), 0.0) / seconds)
        for p in after.processes
    ]
    return CpuUse(
        cores=max(after.cpu_seconds - before.cpu_seconds, 0.0) / seconds,
        busiest=max(rates, key=lambda rate: rate.cores, default=None),
        saturated=sum(rate.cores >= ONE_CORE for rate in rates),
        waits_for_disk=sum(process.waits_for_disk for process in after.processes),
    )


def sees_host_pids() -> bool:
    """Whether process ids here are the host's, as in NVML's lists; in a container they rarely are."""
    try:
        return str(Path("/proc/self/ns/pid").readlink()) == _FIRST_PID_NAMESPACE
    except OSError:
        return False


def dev_shm(path: str = "/dev/shm") -> ShmReading | None:  # noqa: S108 - read, never written
    """Return the use of `/dev/shm`; `None` if it does not exist."""
    try:
        room = os.statvfs(path)
    except (OSError, AttributeError):
        return None
    total = room.f_blocks * room.f_frsize
    return ShmReading(total - room.f_bfree * room.f_frsize, total) if total else None


@dataclass(frozen=True)
class _Stat:
    pid: int
    parent: int
    name: str
    state: str
    own_seconds: float
    children_seconds: float
    rss: int
    started: int


def _children(stats: Iterable[_Stat]) -> dict[int, list[int]]:
    children: dict[int, list[int]] = {}
    for stat in stats:
        children.setdefault(stat.parent, []).append(stat.pid)
    return children


def _below(roots: Iterable[int], children: dict[int, list[int]]) -> set[int]:
    found: set[int] = set()
    waiting = list(roots)
    while waiting:
        pid = waiting.pop()
        if pid not in found:
            found.add(pid)
            waiting.extend(children.get(pid, ()))
    return found


def _parse_stat(pid: int, text: bytes) -> _Stat | None:
    """Parse /proc/PID/stat (proc_pid_stat(5)); the name in parentheses may itself contain parentheses and spaces."""
    try:
        name = text[text.index(b"(") + 1 : text.rindex(b")")].decode(errors="replace")
        fields = text[text.rindex(b")") + 2 :].split()
        own, children = int(fields[11]) + int(fields[12]), int(fields[13]) + int(fields[14])
        state, parent, started, pages = fields[0].decode(), int(fields[1]), int(fields[19]), int(fields[21])
    except (ValueError, IndexError):
        return None
    return _Stat(pid, parent, name, state, own / _TICKS, children / _TICKS, max(pages, 0) * _PAGE, started)


def _parse_io(text: bytes) -> tuple[int, int] | None:
    """Parse read_bytes and write_bytes of /proc/PID/io (proc_pid_io(5)); they include waited-for children."""
    values = dict(line.split(b": ", 1) for line in text.splitlines() if b": " in line)
    try:
        return int(values[b"read_bytes"]), int(values[b"write_bytes"])
    except (KeyError, ValueError):
        return None


def _read(path: str) -> bytes | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return os.read(descriptor, 4096)
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _sysconf(name: str, otherwise: int) -> int:
    try:
        return os.sysconf(name)
    except (OSError, ValueError, AttributeError):
        return otherwise


_TICKS = _sysconf("SC_CLK_TCK", 100)
_PAGE = _sysconf("SC_PAGE_SIZE", 4096)
