"""Adding up readings in memory that does not grow."""

import random

import pytest

from gpuproof.gpu.gpu_stats import BUCKETS, GpuStats, SeriesBuilder


def test_a_series_has_one_mean_a_step():
    series = SeriesBuilder(2.0)
    for value in (0, 100, 50, 50, 80):
        series.add(1.0, value)
    assert series.series().values == (50, 50, 80)


def test_a_long_look_fills_several_steps():
    series = SeriesBuilder(1.0)
    series.add(3.0, 40)
    assert series.series().values == (40, 40, 40)


def test_what_is_not_known_does_not_count_as_zero():
    series = SeriesBuilder(2.0)
    for value in (None, 60, None, None):
        series.add(1.0, value)
    assert series.series().values == (60, None)


@pytest.mark.parametrize("seconds", [119, 120, 121, 1000, 100_000])
def test_a_series_stays_short_and_keeps_its_mean(seconds: int):
    series = SeriesBuilder(1.0)
    rng = random.Random(seconds)
    values = [rng.randrange(101) for _ in range(seconds)]
    for value in values:
        series.add(1.0, value)
    result = series.series()
    assert BUCKETS / 2 <= len(result.values) <= BUCKETS
    whole = int(seconds / result.step_s)
    known = [value for value in result.values[:whole] if value is not None]
    covered = values[: round(whole * result.step_s)]
    assert sum(known) / whole == pytest.approx(sum(covered) / len(covered))


def _stats(*utilizations: int | None, held: bool = True) -> GpuStats:
    stats = GpuStats(1.0)
    for t, utilization in enumerate(utilizations):
        stats.add(t, 1.0, held=held, utilization=utilization)
    return stats


def test_idle_time_before_the_first_and_after_the_last_use_is_outside_the_window():
    work = _stats(0, 0, 80, 0, 40, 0, 0, 0).work()
    assert work.mean_utilization == pytest.approx((80 + 0 + 40) / 3)
    assert (work.first_use_s, work.last_use_s) == (2, 4)


def test_the_ninetieth_percentile_is_over_time_not_over_samples():
    stats = GpuStats(1.0)
    stats.add(0, 9.0, held=True, utilization=10)
    stats.add(9, 0.5, held=True, utilization=100)
    stats.add(9.5, 0.5, held=True, utilization=100)
    assert stats.work().p90_utilization == 10


def test_work_of_an_unknown_process_is_counted_separately():
    work = _stats(None, None, 50).work()
    assert (work.unclear_s, work.busy_s) == (2, 0.5)


def test_throttling_is_a_share_of_the_working_time():
    stats = GpuStats(1.0)
    stats.add(0, 1.0, held=True, utilization=0, throttle=("power brake",))
    stats.add(1, 1.0, held=True, utilization=90, throttle=("power brake",))
    stats.add(2, 3.0, held=True, utilization=90, throttle=())
    assert stats.work().throttle == (("power brake", 0.25),)


def test_a_ledger_without_work_has_no_means():
    work = _stats(0, 0).work()
    assert (work.mean_utilization, work.p90_utilization, work.first_use_s, work.throttle) == (
        None,
        None,
        None,
        (),
    )
