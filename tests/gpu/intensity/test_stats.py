"""Intensity: means over the samples in which the job had a GPU busy."""

from typing import Any

import pytest

from gpuproof.gpu.intensity import DCGM, GPM, Counters, Intensity, IntensityStats
from support.gpu_timelines import JOB, STRANGER, gpu, watched

BUSY: dict[str, Any] = {"power_w": 165.0, "memory_utilization": 40, "sm_clock_mhz": 855}


def intensity_of(*timeline: Any, **more: Any) -> Intensity:
    (telemetry,) = watched(20, *timeline, **more).gpus
    assert telemetry.intensity is not None
    return telemetry.intensity


def test_a_gpu_without_counters_has_power_memory_and_clocks() -> None:
    found = intensity_of(gpu(90, mib=8000, pids={JOB: 7900}, since=5, until=15, **BUSY))
    assert (found.source, found.seconds, found.sm_active) == ("counters", 10, None)
    assert found.busy == pytest.approx(0.9)
    # Idle at 30 W, with a limit of 300 W: 135 of 270 W.
    assert found.power_share == pytest.approx(0.5)
    assert (found.memory_utilization, found.clock_share) == (pytest.approx(0.4), pytest.approx(0.5))


def test_a_gpu_that_was_never_busy_has_none() -> None:
    (telemetry,) = watched(20, gpu(0, mib=8000, pids={JOB: 7900})).gpus
    assert telemetry.intensity is None


def test_time_in_which_the_gpu_was_idle_does_not_count() -> None:
    stats = IntensityStats()
    stats.add(1.0, utilization=100, counters=Counters(GPM, busy=1.0, sm_active=0.8))
    stats.add(3.0, utilization=100, counters=Counters(GPM, busy=0.2, sm_active=0.4))
    found = stats.intensity()
    assert found is not None
    assert (found.source, found.seconds) == ("gpm", 4.0)
    assert (found.busy, found.sm_active) == (pytest.approx(0.4), pytest.approx(0.5))


def test_a_counter_that_is_missing_at_times_is_averaged_over_the_rest() -> None:
    stats = IntensityStats()
    stats.add(1.0, utilization=100, counters=Counters(DCGM, sm_active=0.8, tensor_active=0.6))
    stats.add(1.0, utilization=50, counters=Counters(DCGM, sm_active=0.4))
    stats.add(1.0, utilization=100)
    found = stats.intensity()
    assert found is not None
    assert (found.sm_active, found.tensor_active, found.fp64_active) == (
        pytest.approx(0.6),
        pytest.approx(0.6),
        None,
    )
    assert (found.busy, found.seconds, found.counted_s) == (pytest.approx(2.5 / 3), 3, 2)


def test_counters_that_come_seldom_have_their_own_busy_time() -> None:
    """An exporter measures every 30 s: its value also covers time before the GPU was busy."""
    stats = IntensityStats()
    for second in range(30):
        counters = Counters(DCGM, busy=0.5, sm_active=0.4) if second == 20 else None
        stats.add(1.0, utilization=100, counters=counters)
    found = stats.intensity()
    assert found is not None
    assert (found.busy, found.sm_active, found.counted_s) == (pytest.approx(0.5), pytest.approx(0.4), 1)


def test_power_is_unknown_where_the_gpu_was_never_seen_idle() -> None:
    found = intensity_of(gpu(90, pids={JOB: 7900}, since=0, **BUSY))
    assert (found.power_share, found.clock_share) == (None, pytest.approx(0.5))


def test_a_sample_that_another_process_shares_is_not_the_jobs() -> None:
    """Counters are the whole GPU's: only what the job alone did says something about it."""
    both = {JOB: 4000, STRANGER: 4000}
    (telemetry,) = watched(
        20, gpu(90, pids=both, since=5, process_utilization=((JOB, 45), (STRANGER, 45)), **BUSY)
    ).gpus
    assert telemetry.intensity is None
    found = intensity_of(gpu(90, pids=both, since=5, process_utilization=((JOB, 88), (STRANGER, 2)), **BUSY))
    assert found.clock_share == pytest.approx(0.5)


def test_without_a_process_list_it_is_the_whole_gpus() -> None:
    found = intensity_of(gpu(90, mib=8000, since=5, **BUSY), pids_comparable=False)
    assert found.power_share == pytest.approx(0.5)


def test_power_above_the_limit_is_all_of_it() -> None:
    found = intensity_of(gpu(90, pids={JOB: 7900}, since=5, power_w=310.0))
    assert found.power_share == 1
