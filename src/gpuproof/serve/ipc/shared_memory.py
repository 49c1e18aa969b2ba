"""Memory that the front shares with its predictors: a large body is read where it was received.

Not `multiprocessing.shared_memory`: its files lie in /dev/shm, of which a container has 64 MiB by default, and outlive a
server that is killed.
"""

from __future__ import annotations

import fcntl
import heapq
import mmap
import os
import weakref
from contextlib import suppress
from functools import partial

SLOT = 32 * 1024 * 1024
"""Bytes that one body may have here."""
_SLOTS = 64
_SIZE = SLOT * _SLOTS
"""Of addresses: pages cost nothing until they are written."""
_SEALS = (
    getattr(fcntl, "F_SEAL_SHRINK", 0) | getattr(fcntl, "F_SEAL_GROW", 0) | getattr(fcntl, "F_SEAL_SEAL", 0)
)
_KEPT_SLOTS = 4
_KEPT = 4 * 1024 * 1024
"""So many bytes of the first slots stay in memory when they are free: fresh pages cost a third of the receiving."""


class BodyMemory:
    """The front's end: gives places to bodies, each for as long as its view lives. Made with `BodyMemory.make()`."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._memory = mmap.mmap(descriptor, _SIZE)
        self.readable = _only_readable(descriptor)
        """Another descriptor, for predictors: a handler can do no harm with it."""
        # The lowest first: those are warm.
        self._free = list(range(_SLOTS))
        self._taken: dict[int, tuple[int, weakref.ref[memoryview]]] = {}

    @classmethod
    def make(cls) -> BodyMemory | None:
        """A new one; `None` where there can be none, and bodies go through the predictors' sockets."""
        if not hasattr(os, "memfd_create") or not hasattr(mmap, "MADV_REMOVE"):
            return None
        try:
            descriptor = os.memfd_create("gpuproof-bodies", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        except OSError:
            return None
        try:
            os.ftruncate(descriptor, _SIZE)
            # Pages that somebody cut off would be a SIGBUS to all others.
            with suppress(OSError):
                fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALS)
            return cls(descriptor)
        except (OSError, ValueError):
            # A limit on addresses, mostly.
            os.close(descriptor)
            return None

    def take(self, size: int) -> memoryview | None:
        """So many bytes to write to, whatever they hold now; `None` where no slot is free or large enough.

        They are free again when the view is no more: who hands on a part of it must keep the view itself.
        """
        if size > SLOT or not self._free:
            return None
        slot = heapq.heappop(self._free)
        view = memoryview(self._memory)[slot * SLOT : slot * SLOT + size]
        number = id(view)
        self._taken[number] = slot, weakref.ref(view, partial(self._gone, number, size))
        return view

    def offset_of(self, view: object) -> int | None:
        """Where a view begins; `None` for what is none of this memory's."""
        slot, reference = self._taken.get(id(view), (0, None))
        return slot * SLOT if reference is not None and reference() is view else None

    def _gone(self, number: int, size: int, _reference: object) -> None:
        slot, _ = self._taken.pop(number)
        kept = _KEPT if slot < _KEPT_SLOTS else 0
        if size > kept:
            # What does not give them back (gVisor) keeps them for the next body.
            with suppress(OSError):
                self._memory.madvise(mmap.MADV_REMOVE, slot * SLOT + kept, _pages(size - kept))
        heapq.heappush(self._free, slot)


class OpenedMemory:
    """The same memory in another process, to which the descriptor was handed over."""

    def __init__(self, descriptor: int, *, to_write: bool = False) -> None:
        self._descriptor = descriptor
        self._access = mmap.ACCESS_WRITE if to_write else mmap.ACCESS_READ
        self._slots: dict[int, memoryview] = {}

    def part(self, offset: int, length: int) -> memoryview:
        """What lies there, until its request is answered. Raises OSError: no addresses are left to write to it."""
        number, at = divmod(offset, SLOT)
        try:
            slot = self._slots.get(number) or self._map(number)
        except OSError:
            # A handler may have limited its process's addresses.
            if self._access == mmap.ACCESS_WRITE:
                raise
            return memoryview(os.pread(self._descriptor, length, offset))
        return slot[at : at + length]

    def _map(self, number: int) -> memoryview:
        # Only those that are used, of which one is the rule: a process need not look as if it took gigabytes.
        mapped = mmap.mmap(self._descriptor, SLOT, access=self._access, offset=number * SLOT)
        self._slots[number] = memoryview(mapped)
        return self._slots[number]


def _only_readable(descriptor: int) -> int:
    try:
        return os.open(f"/proc/self/fd/{descriptor}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return os.dup(descriptor)


def _pages(size: int) -> int:
    return -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
