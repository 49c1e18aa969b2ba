"""Bottlenecks that the evidence supports."""

import pytest

from gpuproof.agent.verdict import Bottleneck, Expectation, judge
from gpuproof.gpu.processes import ShmReading
from gpuproof.gpu.telemetry import Telemetry
from support.gpu_timelines import JOB, STRANGER, Timeline, cpu, gpu, watched

OURS = {"mib": 8000, "pids": {JOB: 7900}}
STARVED: Timeline = gpu(25, **OURS)
FED: Timeline = gpu(95, **OURS)
MIB = 1024 * 1024


def held_back(telemetry: Telemetry) -> list[Bottleneck]:
    return list(judge(Expectation(1), telemetry).bottlenecks)


def kinds(telemetry: Telemetry) -> list[str]:
    return [bottleneck.kind for bottleneck in held_back(telemetry)]


def test_a_python_process_at_a_whole_core_while_the_gpu_waits_is_named():
    (found,) = held_back(watched(60, STARVED, cpu=cpu(0.99)))
    assert found.kind == "one-core"
    assert found.sentence.startswith(
        f"The GPU waited 75% of the time while python (process {JOB}) ran at 99% of one core"
    )
    assert found.numbers["process_cpu_percent"] == pytest.approx(99)
    assert found.numbers["waiting_share"] == pytest.approx(0.75)


def test_several_saturated_workers_are_counted():
    (found,) = held_back(watched(60, STARVED, cpu=cpu(1.0, saturated=4)))
    assert "4 of the job's processes kept a core busy each" in found.sentence


def test_a_gpu_that_is_well_fed_is_held_back_by_nothing():
    # PyTorch's main process spins at a whole core while it waits for the GPU.
    assert kinds(watched(60, FED, cpu=cpu(1.0))) == []


def test_all_cores_busy_is_another_matter_than_one():
    assert kinds(watched(60, STARVED, cpu=cpu(7.6), cpu_count=8)) == ["all-cores"]


def test_waiting_for_the_disk_is_named_with_the_rate():
    (found,) = held_back(watched(60, STARVED, cpu=cpu(0.2, disk=1), read_rate=90e6))
    assert found.kind == "disk"
    assert "90 MB/s" in found.sentence


def test_much_reading_counts_as_waiting_for_the_disk():
    assert kinds(watched(60, STARVED, cpu=cpu(0.2), read_rate=120e6)) == ["disk"]


def test_waiting_without_a_known_cause_is_unexplained():
    (found,) = held_back(watched(60, STARVED, cpu=cpu(3.0)))
    assert found.kind == "unexplained"
    assert "the job kept 3.0 of 8 cores busy" in found.sentence


def test_a_run_that_only_just_began_is_not_explained():
    assert kinds(watched(3, STARVED, cpu=cpu(1.0))) == []


def test_a_gpu_of_another_process_is_not_explained():
    assert kinds(watched(60, gpu(5, mib=9000, pids={STRANGER: 8900}), cpu=cpu(1.0))) == []


def test_a_gpu_that_is_held_and_idle_is_explained_too():
    assert kinds(watched(60, gpu(0, **OURS), cpu=cpu(1.0))) == ["one-core"]


def test_a_nearly_full_dev_shm_is_named():
    (found,) = held_back(watched(60, FED, shm=ShmReading(62 * MIB, 64 * MIB)))
    assert found.kind == "shm"
    assert "97% full (62.0 MiB of 64.0 MiB)" in found.sentence


def test_a_half_full_dev_shm_is_not():
    assert kinds(watched(60, FED, shm=ShmReading(32 * MIB, 64 * MIB))) == []


def test_a_throttled_gpu_is_named_with_its_reason():
    (found,) = held_back(watched(60, gpu(95, **OURS, throttle=("thermal slowdown (hardware)",))))
    assert found.kind == "throttling"
    assert "GPU 0 ran with lowered clocks for up to 100%" in found.sentence
    assert "thermal slowdown (hardware)" in found.sentence


def test_the_power_cap_is_recorded_and_not_complained_about():
    verdict = judge(Expectation(1), watched(60, gpu(95, **OURS, throttle=("power cap",))))
    assert verdict.bottlenecks == ()
    assert verdict.gpus[0].throttle == {"power cap": pytest.approx(1.0)}
