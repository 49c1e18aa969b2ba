"""Replays of hand-written traces, computed by hand."""

from __future__ import annotations

from gpuproof.planning.memory import replay
from gpuproof.planning.memory.replay import POINTS
from gpuproof.trace.document import CATEGORIES, CUBLAS_WORKSPACE, Memory
from support.plan_examples import MIB, blocks


def test_the_peak_is_where_most_is_allocated_at_the_same_time() -> None:
    memory = Memory(blocks(parameter=20 * MIB, activation=40 * MIB, temporary=30 * MIB), [1, 2, -2, 3, -3, 0])
    result = replay(memory)
    assert result.allocated == 60 * MIB
    assert result.by_category == {"parameter": 20 * MIB, "activation": 40 * MIB}
    # The temporary block reuses the segment of the activation; the rest of it is split off.
    assert result.reserved == 60 * MIB
    assert result.timeline == [20 * MIB, 60 * MIB, 20 * MIB, 50 * MIB, 20 * MIB]


def test_the_timeline_is_that_of_the_last_step() -> None:
    memory = Memory(blocks(parameter=2 * MIB, activation=4 * MIB), [1, 2, -2, 0, 2, -2, 0])
    assert replay(memory).timeline == [6 * MIB, 2 * MIB]


def test_a_long_timeline_is_shortened_and_keeps_its_peak() -> None:
    kind = CATEGORIES.index("activation")
    sizes = [(MIB + index * 4096, kind) for index in range(500)]
    events = [number for index in range(500) for number in (index + 1, -(index + 1))]
    result = replay(Memory(sizes, [*events, 0]))
    assert len(result.timeline) == POINTS
    assert max(result.timeline) == result.allocated


def test_a_small_gpu_releases_segments_that_are_unused_instead_of_reserving_more() -> None:
    memory = Memory(blocks(activation=40 * MIB, temporary=60 * MIB), [1, -1, 2, -2, 0])
    assert replay(memory).reserved == 100 * MIB
    limited = replay(memory, 64 * MIB)
    assert (limited.reserved, limited.out_of_memory) == (60 * MIB, False)


def test_a_gpu_that_is_too_small_has_no_room() -> None:
    memory = Memory(blocks(activation=40 * MIB, temporary=60 * MIB), [1, 2, -2, -1, 0])
    assert replay(memory, 64 * MIB).out_of_memory


def test_a_workspace_of_cublas_is_as_large_as_the_gpu_s_pytorch_makes_it() -> None:
    memory = Memory(
        blocks(parameter=20 * MIB, workspace=CUBLAS_WORKSPACE, activation=40 * MIB), [1, 2, 3, -3, 0]
    )
    assert replay(memory).by_category["workspace"] == 8320 * 1024
    large = replay(memory, workspace=32 * MIB)
    assert (large.allocated, large.by_category["workspace"]) == (92 * MIB, 32 * MIB)
