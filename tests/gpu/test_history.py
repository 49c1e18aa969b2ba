"""The last values of GPUs."""

from __future__ import annotations

from gpuproof.gpu.history import History, RecentMeans
from gpuproof.gpu.nvml import GpuReading
from gpuproof.gpu.telemetry import Sample


def sample(t: float, *busy: int | None, dt: float = 1.0) -> Sample:
    readings = [
        GpuReading(index, utilization=each, memory_used=1000 + index) for index, each in enumerate(busy)
    ]
    return Sample(t, dt, tuple(readings))


def test_a_history_keeps_gaps_and_forgets_the_oldest() -> None:
    history = History(3)
    first, second = ("algo-1", 0, "utilization"), ("algo-2", 0, "utilization")
    history.add(1, {first: 10})
    history.add(2, {first: 20, second: 5})
    history.add(3, {second: 6})
    assert history.of("algo-1", 0, "utilization") == (10, 20, None)
    assert history.of("algo-2", 0, "utilization") == (None, 5, 6)
    history.add(4, {first: 40})
    assert (history.times, history.of("algo-1", 0, "utilization")) == ((2, 3, 4), (20, None, 40))
    assert history.of("algo-3", 0, "utilization") == ()


def test_steps_are_means_by_time_that_end_at_multiples_of_ten_seconds() -> None:
    means = RecentMeans()
    means.add(sample(0.0, 0, 50, dt=0.0))
    for second in range(1, 10):
        means.add(sample(second + 0.3, 80, 50, dt=1.0))
    assert means.to_json() == {"times": (), "gpus": ()}
    means.add(sample(13.0, 20, None, dt=3.7))
    means.add(sample(20.4, 20, None, dt=7.4))
    means.add(sample(21.4, 90, 90))
    assert means.to_json() == {
        "times": (10.0, 20.0),
        "gpus": [
            {"index": 0, "utilization": (80, 20), "memory_used": (1000, 1000)},
            {"index": 1, "utilization": (50, None), "memory_used": (1001, 1001)},
        ],
    }


def test_a_pause_is_a_gap_in_the_times() -> None:
    means = RecentMeans()
    means.add(sample(1.0, 80))
    means.add(sample(300.0, 60))
    means.add(sample(311.0, 70))
    found = means.to_json()
    assert found["times"] == (10.0, 300.0)
    assert found["gpus"][0]["utilization"] == (80, 60)


def test_a_quarter_of_an_hour_is_kept() -> None:
    means = RecentMeans()
    for second in range(1, 2000):
        means.add(sample(second, second // 10 % 100))
    times = means.to_json()["times"]
    assert (times[0], times[-1], len(times)) == (1100.0, 1990.0, 90)
