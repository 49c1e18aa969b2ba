"""The memory that the frontend shares with workers: owner, lifetime and cost of its slots."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator

import pytest

from gpuproof.serve.ipc.shared_memory import SLOT, BodyMemory, OpenedMemory

MIB = 1024 * 1024
READS = """
fd = os.memfd_create("x")
os.ftruncate(fd, 64 * SLOT)
os.pwrite(fd, b"abc", SLOT)
print(bytes(OpenedMemory(fd).part(SLOT, 3)))
"""


@pytest.fixture
def memory() -> Iterator[BodyMemory]:
    made = BodyMemory.create()
    assert made is not None
    yield made
    os.close(made.descriptor)


def in_memory(memory: BodyMemory) -> int:
    """Bytes of it that are really there."""
    return os.fstat(memory.descriptor).st_blocks * 512


def test_what_the_front_writes_is_what_another_process_reads(memory: BodyMemory) -> None:
    first, second = memory.take(100_000), memory.take(3)
    assert first is not None
    assert second is not None
    first[:] = b"x" * 100_000
    second[:] = b"abc"
    offset = memory.offset_of(second)
    assert offset is not None
    program = textwrap.dedent(
        """
        import sys
        from gpuproof.serve.ipc.shared_memory import OpenedMemory
        memory = OpenedMemory(int(sys.argv[1]))
        print(bytes(memory.part(int(sys.argv[2]), 3)), set(bytes(memory.part(0, 100_000))))
        """
    )
    command = [sys.executable, "-c", program, str(memory.descriptor), str(offset)]
    done = subprocess.run(command, pass_fds=[memory.descriptor], capture_output=True, text=True, check=True)
    assert done.stdout == f"{b'abc'!r} {{{ord('x')}}}\n"


def test_a_slot_is_reused_only_when_it_is_no_longer_held(memory: BodyMemory) -> None:
    first = memory.take(10)
    second = memory.take(10)
    assert (memory.offset_of(first), memory.offset_of(second)) == (0, SLOT)
    del first
    third = memory.take(20)
    assert memory.offset_of(third) == 0
    assert memory.offset_of(second) == SLOT


def test_what_is_not_its_own_has_no_place(memory: BodyMemory) -> None:
    view = memory.take(10)
    assert view is not None
    assert memory.offset_of(view[2:]) is None
    assert memory.offset_of(memoryview(b"abc")) is None
    assert memory.offset_of(b"abc") is None


def test_there_is_none_for_more_than_fits(memory: BodyMemory) -> None:
    assert memory.take(SLOT + 1) is None
    taken = [memory.take(SLOT) for _ in range(64)]
    assert None not in taken
    assert memory.take(1) is None
    del taken[10]
    assert memory.offset_of(memory.take(1)) == 10 * SLOT


def test_pages_cost_nothing_until_they_are_written(memory: BodyMemory) -> None:
    taken = [memory.take(SLOT) for _ in range(64)]
    assert in_memory(memory) == 0
    view = taken[3]
    assert view is not None
    view[:MIB] = b"x" * MIB
    assert in_memory(memory) == MIB


@pytest.mark.slow
def test_little_stays_in_memory_when_all_is_given_back(memory: BodyMemory) -> None:
    taken = [memory.take(10 * MIB) for _ in range(20)]
    for view in taken:
        assert view is not None
        view[:] = b"x" * len(view)
    assert in_memory(memory) == 200 * MIB
    del view
    taken.clear()
    gc.collect()
    assert in_memory(memory) == 16 * MIB
    again = memory.take(MIB)
    assert again is not None
    again[:] = b"y" * MIB
    assert in_memory(memory) == 16 * MIB, "pages that are there are used again"


def test_a_predictor_cannot_write_to_it_and_a_reader_can(memory: BodyMemory) -> None:
    view = memory.take(4)
    assert view is not None
    with pytest.raises(TypeError):
        OpenedMemory(memory.descriptor).part(0, 4)[:] = b"abcd"
    OpenedMemory(memory.descriptor, writable=True).part(0, 4)[:] = b"abcd"
    assert bytes(view) == b"abcd"


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("print(BodyMemory.create())", "None"),
        (READS, "b'abc'"),
    ],
    ids=["the_front_does_without", "a_predictor_reads_a_copy"],
)
def test_a_process_with_few_addresses(code: str, says: str) -> None:
    limited = (
        "import os, resource; from gpuproof.serve.ipc.shared_memory import *; from gpuproof.serve.ipc.shared_memory import SLOT\n"
        "size = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize() + (16 << 20)\n"
        f"resource.setrlimit(resource.RLIMIT_AS, (size, size))\n{code}"
    )
    done = subprocess.run([sys.executable, "-c", limited], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == says


def test_it_cannot_be_truncated_and_readers_cannot_write(memory: BodyMemory) -> None:
    with pytest.raises(PermissionError):
        os.ftruncate(memory.descriptor, 0)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.pwrite(memory.readable, b"x", 0)
    view = memory.take(3)
    assert view is not None
    view[:] = b"abc"
    assert bytes(OpenedMemory(memory.readable).part(0, 3)) == b"abc"
