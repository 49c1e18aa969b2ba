"""The simulator of CUDA's caching allocator, against cases computed by hand from its published rules."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuproof.planning.memory.caching_allocator import CachingAllocator, OutOfMemory, segment_size

KIB, MIB = 1 << 10, 1 << 20


@pytest.mark.parametrize(
    ("size", "segment", "allocated"),
    [
        (512, 2 * MIB, 512),
        (MIB, 2 * MIB, MIB),
        (MIB + 512, 20 * MIB, MIB + 512),
        (10 * MIB - 512, 20 * MIB, 10 * MIB - 512),
        (10 * MIB, 10 * MIB, 10 * MIB),
        (11 * MIB - 512, 12 * MIB, 11 * MIB - 512),
        # The rest of 1 MiB is not larger than 1 MiB, so it stays with the block and counts as allocated.
        (11 * MIB, 12 * MIB, 12 * MIB),
    ],
)
def test_the_size_of_a_segment(size: int, segment: int, allocated: int) -> None:
    assert segment_size(size) == segment
    allocator = CachingAllocator()
    allocator.allocate(1, size)
    assert (allocator.allocated, allocator.reserved) == (allocated, segment)


def test_sizes_are_rounded_to_512_bytes_and_small_blocks_share_a_segment() -> None:
    allocator = CachingAllocator()
    allocator.allocate(1, 1)
    allocator.allocate(2, 513)
    assert (allocator.allocated, allocator.reserved) == (512 + 1024, 2 * MIB)


def test_a_freed_block_is_used_again_and_stays_reserved() -> None:
    allocator = CachingAllocator()
    allocator.allocate(1, 30 * MIB)
    allocator.free(1)
    assert (allocator.allocated, allocator.reserved) == (0, 30 * MIB)
    allocator.allocate(2, 20 * MIB)
    # The rest of 10 MiB is split off and serves the next one.
    allocator.allocate(3, 10 * MIB)
    assert (allocator.peak_reserved, allocator.peak_allocated) == (30 * MIB, 30 * MIB)


def test_a_freed_block_serves_no_other_stream_until_the_gpu_is_full() -> None:
    allocator = CachingAllocator(80 * MIB)
    allocator.allocate(1, 30 * MIB, communication=True)
    allocator.free(1)
    allocator.allocate(2, 30 * MIB)
    assert allocator.reserved == 60 * MIB
    allocator.allocate(3, 40 * MIB)
    assert (allocator.reserved, allocator.retries) == (70 * MIB, 1)


def test_the_rest_of_a_large_block_is_not_split_off_if_it_is_small() -> None:
    allocator = CachingAllocator()
    allocator.allocate(1, 12 * MIB)
    allocator.free(1)
    allocator.allocate(2, 11 * MIB)
    assert allocator.allocated == 12 * MIB


def test_the_best_fit_is_taken() -> None:
    allocator = CachingAllocator()
    for key, size in ((1, 40 * MIB), (2, 30 * MIB)):
        allocator.allocate(key, size)
    allocator.free(1)
    allocator.free(2)
    allocator.allocate(3, 30 * MIB)
    allocator.allocate(4, 40 * MIB)
    assert allocator.reserved == 70 * MIB


def test_neighbors_are_merged_when_they_are_freed() -> None:
    allocator = CachingAllocator()
    allocator.allocate(1, 40 * MIB)
    allocator.free(1)
    for key in (2, 3, 4):
        allocator.allocate(key, 12 * MIB)
    for key in (2, 4, 3):
        allocator.free(key)
    allocator.allocate(5, 40 * MIB)
    assert allocator.reserved == 40 * MIB


def test_fragments_are_released_when_the_gpu_is_full() -> None:
    allocator = CachingAllocator(capacity=64 * MIB)
    allocator.allocate(1, 30 * MIB)
    allocator.allocate(2, 30 * MIB)
    allocator.free(1)
    allocator.free(2)
    allocator.allocate(3, 50 * MIB)
    assert (allocator.retries, allocator.reserved, allocator.peak_reserved) == (1, 50 * MIB, 60 * MIB)


def test_a_full_gpu_raises() -> None:
    allocator = CachingAllocator(capacity=64 * MIB)
    allocator.allocate(1, 40 * MIB)
    with pytest.raises(OutOfMemory) as raised:
        allocator.allocate(2, 40 * MIB)
    error = raised.value
    assert (error.requested, error.allocated, error.reserved) == (40 * MIB, 40 * MIB, 40 * MIB)


def test_a_key_in_use_is_rejected() -> None:
    allocator = CachingAllocator()
    allocator.allocate(1, 1)
    with pytest.raises(ValueError, match="allocated already"):
        allocator.allocate(1, 1)


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 40 * MIB)), max_size=60))
def test_what_is_reserved_covers_what_is_allocated_and_all_can_be_released(
    steps: list[tuple[int, int]],
) -> None:
    allocator = CachingAllocator()
    used: set[int] = set()
    for key, size in steps:
        if key in used:
            allocator.free(key)
            used.remove(key)
        else:
            allocator.allocate(key, size)
            used.add(key)
        assert 0 <= allocator.allocated <= allocator.reserved <= allocator.peak_reserved
    for key in used:
        allocator.free(key)
    assert allocator.allocated == 0
    assert allocator.release_unused() > 0 or allocator.peak_reserved == 0
    assert allocator.reserved == 0
