"""Memory that the frontend shares with its workers, so that large bodies are not copied between processes.

Does not use `multiprocessing.shared_memory`: its files are in /dev/shm, which has 64 MiB in a container by default, and
remain when a server is killed.
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
"""Maximum size of a body in shared memory, in bytes."""
_SLOTS = 64
_SIZE = SLOT * _SLOTS
"""Address space; pages take no memory until they are written."""
_SEALS = (
    getattr(fcntl, "F_SEAL_SHRINK", 0) | getattr(fcntl, "F_SEAL_GROW", 0) | getattr(fcntl, "F_SEAL_SEAL", 0)
)
_KEPT_SLOTS = 4
_KEPT = 4 * 1024 * 1024
"""Bytes of each of the first slots that stay allocated when free: page faults cost a third of the time to receive."""


class BodyMemory:
    """The frontend's end: allocates memory for bodies, each for the lifetime of its view.

    Create one with `BodyMemory.create()`.
    """

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._memory = mmap.mmap(descriptor, _SIZE)
        self.readable = _read_only(descriptor)
        """A read-only descriptor for workers, so that handlers cannot modify bodies."""
        # Lowest first, because their pages stay allocated.
        self._free = list(range(_SLOTS))
        self._taken: dict[int, tuple[int, weakref.ref[memoryview]]] = {}

    @classmethod
    def create(cls) -> BodyMemory | None:
        """Create shared memory. Returns `None` if that is not possible; bodies are then sent through sockets."""
        if not hasattr(os, "memfd_create") or not hasattr(mmap, "MADV_REMOVE"):
            return None
        try:
            descriptor = os.memfd_create("gpuproof-bodies", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        except OSError:
            return None
        try:
            os.ftruncate(descriptor, _SIZE)
            # Truncating the file would cause a SIGBUS in every process that uses it.
            with suppress(OSError):
                fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALS)
            return cls(descriptor)
        except (OSError, ValueError):
            # Usually a limit on the address space.
            os.close(descriptor)
            return None

    def take(self, size: int) -> memoryview | None:
        """Allocate `size` uninitialized bytes; `None` if no slot is free or large enough.

        They are freed when the view is garbage-collected. Code that uses a slice of it must keep the view itself.
        """
        if size > SLOT or not self._free:
            return None
        slot = heapq.heappop(self._free)
        view = memoryview(self._memory)[slot * SLOT : slot * SLOT + size]
        number = id(view)
        self._taken[number] = slot, weakref.ref(view, partial(self._free_slot, number, size))
        return view

    def offset_of(self, view: object) -> int | None:
        """The offset of an allocated view; `None` for other objects."""
        slot, reference = self._taken.get(id(view), (0, None))
        return slot * SLOT if reference is not None and reference() is view else None

    def _free_slot(self, number: int, size: int, _reference: object) -> None:
        slot, _ = self._taken.pop(number)
        kept = _KEPT if slot < _KEPT_SLOTS else 0
        if size > kept:
            # Systems without support (gVisor) keep the pages for the next body.
            with suppress(OSError):
                self._memory.madvise(mmap.MADV_REMOVE, slot * SLOT + kept, _pages(size - kept))
        heapq.heappush(self._free, slot)


class OpenedMemory:
    """The shared memory in another process, which was given the descriptor."""

    def __init__(self, descriptor: int, *, writable: bool = False) -> None:
        self._descriptor = descriptor
        self._access = mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ
        self._slots: dict[int, memoryview] = {}

    def part(self, offset: int, length: int) -> memoryview:
        """The bytes at an offset; valid until their request is answered.

        Raises:
            OSError: the memory is writable and the process has no address space left to map it.
        """
        number, at = divmod(offset, SLOT)
        try:
            slot = self._slots.get(number) or self._map(number)
        except OSError:
            # A handler may have limited its process's address space.
            if self._access == mmap.ACCESS_WRITE:
                raise
            return memoryview(os.pread(self._descriptor, length, offset))
        return slot[at : at + length]

    def _map(self, number: int) -> memoryview:
        # Map only the slots in use, usually one, so that the process does not appear to use gigabytes.
        mapped = mmap.mmap(self._descriptor, SLOT, access=self._access, offset=number * SLOT)
        self._slots[number] = memoryview(mapped)
        return self._slots[number]


def _read_only(descriptor: int) -> int:
    try:
        return os.open(f"/proc/self/fd/{descriptor}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return os.dup(descriptor)


def _pages(size: int) -> int:
    return -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
