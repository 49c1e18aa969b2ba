"""Scaling efficiency has a basis, or there is none."""

from dataclasses import replace

import pytest

from gpuproof.agent.verdict import Expectation, Throughput, Verdict, judge
from gpuproof.backends.advice.scaling import Measured, scaling_efficiency
from support.gpu_timelines import JOB, gpu, watched

BUSY = gpu(90, mib=8000, pids={JOB: 7900})
IDLE = gpu()


def measured(run: str, gpus: int, rate: float, model: str = "NVIDIA A10G") -> Measured:
    return Measured(run, gpus, model, rate)


def verdict(*gpus: object, rate: float | None = 100.0) -> Verdict:
    found = judge(Expectation(len(gpus), required=True), watched(60, *gpus))  # type: ignore[arg-type]
    return replace(found, throughput=None if rate is None else Throughput(rate, 6000, 60.0))


def test_it_is_the_throughput_of_each_gpu_compared_with_that_of_fewer():
    found = scaling_efficiency(measured("now", 8, 696), [measured("train-1", 1, 100)])
    assert found is not None
    assert found.efficiency == pytest.approx(0.87)
    assert found.text == "scaling efficiency 87% (8 GPUs, compared with train-1 on 1 GPU)"
    assert found.to_json()["compared_with"] == {"run": "train-1", "gpus": 1, "examples_per_s": 100}


def test_the_run_on_the_fewest_gpus_is_the_basis_and_of_those_the_newest():
    earlier = [measured("two", 2, 190), measured("newer", 1, 100), measured("older", 1, 50)]
    found = scaling_efficiency(measured("now", 4, 380), earlier)
    assert found is not None
    assert found.before.run == "newer"


@pytest.mark.parametrize(
    "earlier",
    [[], [measured("same", 8, 700)], [measured("more", 16, 1400)], [measured("other", 1, 100, "NVIDIA T4")]],
    ids=["none", "as many", "more", "another model"],
)
def test_without_a_comparable_run_there_is_no_number(earlier: list[Measured]):
    assert scaling_efficiency(measured("now", 8, 700), earlier) is None


def test_runs_without_throughput_or_with_idle_gpus_are_no_basis():
    assert Measured.of("run", verdict(BUSY)) == measured("run", 1, 100)
    assert Measured.of("run", verdict(BUSY, rate=None)) is None
    assert Measured.of("run", verdict(BUSY, IDLE)) is None
    assert Measured.of("run", verdict(IDLE)) is None
