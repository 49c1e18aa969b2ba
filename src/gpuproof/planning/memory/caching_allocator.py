"""Simulator of PyTorch's caching allocator for CUDA: which memory a sequence of allocations on one or two streams reserves.

The rules and sizes are those of c10/cuda/CUDACachingAllocator.cpp and c10/core/AllocatorConfig.h (PyTorch 2.9) without
`PYTORCH_ALLOC_CONF`, as described in https://docs.pytorch.org/docs/stable/notes/cuda.html#memory-management:
sizes are rounded up to 512 bytes; a block comes from the smallest free block of its pool that is large enough, or from a
new segment; the rest of a block is split off if it is large enough; neighbors are merged when they are freed; a free block is used again by its own stream alone; and if the
GPU has no memory left for a new segment, all unused segments are released first.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass, field

ROUNDING = 512
"""Bytes to whose multiple an allocation is rounded up (`kMinBlockSize`)."""
SMALL = 1 << 20
"""Largest allocation in bytes that comes from the pool of small blocks (`kSmallSize`)."""
SMALL_SEGMENT = 2 << 20
"""Bytes of a segment of the small pool (`kSmallBuffer`)."""
MIDDLE = 10 << 20
"""Allocations of this many bytes and more have segments of their own size (`kMinLargeAlloc`)."""
MIDDLE_SEGMENT = 20 << 20
"""Bytes of a segment for smaller ones (`kLargeBuffer`)."""
LARGE_ROUNDING = 2 << 20
"""Bytes to whose multiple larger segments are rounded up (`kRoundLarge`)."""


class OutOfMemory(Exception):
    """The GPU has no room for an allocation.

    Args:
        requested: bytes of the allocation.
        allocated: bytes in use.
        reserved: bytes of all segments after unused ones were released.
    """

    def __init__(self, requested: int, allocated: int, reserved: int) -> None:
        super().__init__(f"no room for {requested} bytes: {allocated} allocated, {reserved} reserved")
        self.requested = requested
        self.allocated = allocated
        self.reserved = reserved


@dataclass(eq=False, slots=True)
class _Block:
    """A piece of a segment.

    Args:
        size: in bytes.
        address: unique, ascending within a segment.
        small: whether it belongs to the pool of small blocks.
        communication: whether it belongs to the stream of communication.
        free: whether it is unused.
        before: the neighbor at lower addresses.
        after: the neighbor at higher addresses.
    """

    size: int
    address: int
    small: bool
    communication: bool = False
    free: bool = False
    before: _Block | None = None
    after: _Block | None = None

    @property
    def is_segment(self) -> bool:
        """Whether it is a whole segment."""
        return self.before is None and self.after is None


@dataclass(eq=False, slots=True)
class _Pool:
    """Free blocks, ordered by size and address.

    Args:
        keys: size and address of each.
        blocks: the blocks by address.
    """

    keys: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    blocks: dict[int, _Block] = field(default_factory=dict[int, _Block])

    def add(self, block: _Block) -> None:
        insort(self.keys, (block.size, block.address))
        self.blocks[block.address] = block

    def remove(self, block: _Block) -> None:
        del self.keys[bisect_left(self.keys, (block.size, block.address))]
        del self.blocks[block.address]

    def take_best_fit(self, size: int) -> _Block | None:
        index = bisect_left(self.keys, (size, 0))
        if index == len(self.keys):
            return None
        _, address = self.keys.pop(index)
        return self.blocks.pop(address)


class CachingAllocator:
    """The allocator of one process on one GPU.

    Args:
        capacity: bytes that the process may reserve; unlimited if None.

    Attributes:
        allocated: bytes in use, rounded.
        reserved: bytes of all segments.
        peak_allocated: largest value of `allocated`.
        peak_reserved: largest value of `reserved`.
        retries: how often unused segments had to be released for an allocation.
    """

    def __init__(self, capacity: int | None = None) -> None:
        self.capacity = capacity
        self.allocated = 0
        self.reserved = 0
        self.peak_allocated = 0
        self.peak_reserved = 0
        self.retries = 0
        self._used: dict[int, _Block] = {}
        self._pools = {(small, stream): _Pool() for small in (True, False) for stream in (True, False)}
        self._next_address = 1

    def allocate(self, key: int, size: int, *, communication: bool = False) -> None:
        """Allocate a block.

        Args:
            key: its name for `free`.
            size: in bytes; 0 allocates nothing.
            communication: allocate it on the stream of communication.

        Raises:
            OutOfMemory: there is no room, even after unused segments were released.
            ValueError: the key is in use.
        """
        if key in self._used:
            raise ValueError(f"block {key} is allocated already")
        if size == 0:
            return
        size = round_up(size, ROUNDING)
        small = size <= SMALL
        block = self._pools[small, communication].take_best_fit(size)
        block = block or self._new_segment(size, small, communication)
        self._split(block, size)
        block.free = False
        self._used[key] = block
        self.allocated += block.size
        self.peak_allocated = max(self.peak_allocated, self.allocated)

    def free(self, key: int) -> None:
        """Free a block; no error if the key is unknown, as after an allocation of 0 bytes."""
        block = self._used.pop(key, None)
        if block is None:
            return
        self.allocated -= block.size
        block.free = True
        pool = self._pool_of(block)
        for neighbor in (block.before, block.after):
            if neighbor is not None and neighbor.free:
                pool.remove(neighbor)
                self._merge(block, neighbor)
        pool.add(block)

    def release_unused(self) -> int:
        """Give unused segments back to the GPU, as `torch.cuda.empty_cache()`, and return their bytes."""
        released = 0
        for pool in self._pools.values():
            for block in [block for block in pool.blocks.values() if block.is_segment]:
                pool.remove(block)
                released += block.size
        self.reserved -= released
        return released

    def _pool_of(self, block: _Block) -> _Pool:
        return self._pools[block.small, block.communication]

    def _new_segment(self, size: int, small: bool, communication: bool) -> _Block:
        bytes_ = segment_size(size)
        if self.capacity is not None and self.reserved + bytes_ > self.capacity:
            self.retries += 1
            self.release_unused()
            if self.reserved + bytes_ > self.capacity:
                raise OutOfMemory(size, self.allocated, self.reserved)
        self.reserved += bytes_
        self.peak_reserved = max(self.peak_reserved, self.reserved)
        block = _Block(bytes_, self._next_address, small, communication)
        self._next_address += bytes_
        return block

    def _split(self, block: _Block, size: int) -> None:
        rest = block.size - size
        if not (rest >= ROUNDING if block.small else rest > SMALL):
            return
        tail = _Block(rest, block.address + size, block.small, block.communication, True, block, block.after)
        if block.after is not None:
            block.after.before = tail
        block.after = tail
        block.size = size
        self._pool_of(block).add(tail)

    @staticmethod
    def _merge(block: _Block, neighbor: _Block) -> None:
        block.size += neighbor.size
        if neighbor is block.before:
            block.address = neighbor.address
            block.before = neighbor.before
            if block.before is not None:
                block.before.after = block
        else:
            block.after = neighbor.after
            if block.after is not None:
                block.after.before = block


def round_up(size: int, multiple: int) -> int:
    """The smallest multiple that is not below a size."""
    return -(-size // multiple) * multiple


def segment_size(size: int) -> int:
    """Bytes of the segment that is reserved for an allocation of a rounded size."""
    if size <= SMALL:
        return SMALL_SEGMENT
    return MIDDLE_SEGMENT if size < MIDDLE else round_up(size, LARGE_ROUNDING)
