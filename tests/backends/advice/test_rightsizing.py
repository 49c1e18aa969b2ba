"""A cheaper instance type is recommended only if it follows from the measurements."""

from dataclasses import replace
from typing import Any

import pytest

from gpuproof.agent.verdict import Bottleneck, Expectation, HostReport, Verdict, judge, merge_hosts
from gpuproof.agent.verdict.limiting_phase import Machine, with_limiting_phase
from gpuproof.agent.verdict.steps import host_steps
from gpuproof.backends.advice.rightsizing import Rightsizing, rightsize
from gpuproof.catalogue import Catalogue
from gpuproof.gpu.processes import BusyProcess, CpuUse
from support.gpu_timelines import JOB, Timeline, cpu, gpu, watched
from support.step_documents import document

CATALOGUE = Catalogue.load()
BUSY = {"mib": 8000, "pids": {JOB: 7900}}


def loaders(cores: float) -> CpuUse:
    """Processes that keep a core busy each."""
    return CpuUse(cores, BusyProcess(JOB, "pt_data_worker", 0.99), round(cores), 0)


INPUT = loaders(5)


def busy(percent: int) -> Timeline:
    return gpu(percent, **BUSY)


def run(*gpus: Timeline, seconds: float = 600, **more: Any) -> Verdict:
    expectation = Expectation(len(gpus), required=True)
    return judge(expectation, watched(seconds, *gpus, **{"cpu": INPUT, "cpu_count": 48, **more}))


def advice(
    verdict: Verdict, instance_type: str = "ml.g5.12xlarge", count: int = 1, **more: Any
) -> Rightsizing | None:
    options = {"region": "us-east-1", "use": "training", **more}
    return rightsize(verdict, instance_type, count, CATALOGUE, **options)


def usd(instance_type: str, region: str = "us-east-1") -> float:
    price = CATALOGUE.price(instance_type, region, "training")
    assert price is not None
    return price.usd_per_hour


def test_four_gpus_that_wait_for_input_could_be_one():
    found = advice(run(*[busy(20)] * 4))
    assert found is not None
    saving = usd("ml.g5.12xlarge") - usd("ml.g5.2xlarge")
    assert found.text == (
        f"4 of 4 GPUs busy 20% of the time, waiting for input: `ml.g5.2xlarge` would do the same for ${saving:,.2f} less "
        "per hour, if its input pipeline keeps 5.0 cores busy, as here. Fix the input pipeline first: these GPUs could do more."
    )


def test_work_for_more_than_one_gpu_takes_longer_on_one_and_is_not_called_the_same():
    found = advice(run(*[busy(31)] * 4))
    assert found is not None
    assert (found.instance.name, round(found.slowdown, 2)) == ("ml.g5.2xlarge", 1.24)
    assert "on `ml.g5.2xlarge` (1 GPU) the same work would take at least 24% longer, for $" in found.text


def test_ec2_types_are_compared_with_ec2_types():
    found = advice(run(*[busy(20)] * 4), "g5.12xlarge")
    assert found is not None
    assert found.instance.name == "g5.2xlarge"
    assert found.saving == pytest.approx(usd("g5.12xlarge") - usd("g5.2xlarge"))
    assert "$4.46 less per hour" in found.text


def test_gpus_that_did_nothing_are_not_needed_whatever_the_others_did():
    found = advice(run(busy(95), gpu(), gpu(), gpu(), cpu=cpu(2.0)))
    assert found is not None
    saving = usd("ml.g5.12xlarge") - usd("ml.g5.xlarge")
    assert (
        found.text
        == f"1 of 4 GPUs worked: `ml.g5.xlarge` would do the same for ${saving:,.2f} less per hour."
    )


def test_the_processors_must_suffice_for_what_the_job_used():
    found = advice(run(busy(95), gpu(), gpu(), gpu(), cpu=cpu(20.0)))
    assert found is not None
    assert (found.instance.vcpus or 0) >= 25


def test_all_processors_that_were_busy_have_to_be_there():
    found = advice(run(*[busy(20)] * 4, cpu=cpu(48.0)))
    assert found is not None
    assert (found.instance.gpu_count, (found.instance.vcpus or 0) >= 60) == (1, True)


def test_memory_must_suffice_too():
    verdict = run(busy(95), gpu(), gpu(), gpu(), cpu=cpu(2.0))
    assert verdict.processes is not None
    found = advice(replace(verdict, processes=replace(verdict.processes, peak_rss=40 * 2**30)))
    assert found is not None
    assert (found.instance.memory or 0) >= 50 * 2**30


@pytest.mark.parametrize(
    "verdict",
    [
        run(*[busy(95)] * 4),
        run(*[busy(20)] * 4, seconds=100),
        run(*[busy(20)] * 4, cpu=cpu(0.2)),
        run(*[busy(20)] * 4, cpu=cpu(0.2, disk=1)),
        run(busy(20), busy(20), busy(20), gpu(lost_at=3)),
        run(*[gpu()] * 4),
        run(busy(20), busy(20)),
        run(*[busy(60)] * 4),
    ],
    ids=[
        "the GPUs are busy",
        "the run was short",
        "the GPUs waited for an unknown reason",
        "the GPUs waited for storage",
        "a GPU is unknown",
        "nothing worked",
        "the machine has fewer GPUs than the type",
        "the work needs three of four",
    ],
)
def test_nothing_is_recommended_if_it_does_not_follow(verdict: Verdict):
    assert advice(verdict) is None


def test_nothing_is_recommended_without_prices_or_for_an_unknown_type():
    verdict = run(*[busy(20)] * 4)
    assert advice(verdict, "ml.unknown.large") is None
    assert advice(verdict, region="xx-nowhere-1") is None


def test_the_smallest_type_has_no_smaller_one():
    assert advice(run(busy(20), cpu=cpu(1.0)), "ml.g5.xlarge") is None


def test_two_hosts_whose_work_fits_on_one_need_one():
    reports = {
        name: HostReport(run(*[busy(40)] * 4, cpu=loaders(12)).to_json()) for name in ("algo-1", "algo-2")
    }
    document = merge_hosts(reports, reports)
    assert document is not None
    found = advice(Verdict.from_json(document), count=2)
    assert found is not None
    assert (found.instance.name, found.count) == ("ml.g5.12xlarge", 1)
    assert found.saving == pytest.approx(usd("ml.g5.12xlarge"))


def test_only_types_that_the_jobs_kind_accepts_are_recommended():
    found = advice(run(*[busy(20)] * 4), use="processing")
    assert found is None or "processing" in CATALOGUE.accepted_for(found.instance.name)


def test_an_imbalance_does_not_count_as_a_reason_to_wait():
    verdict = run(busy(95), gpu(), gpu(), gpu(), cpu=cpu(2.0))
    uneven = Bottleneck("imbalance", "", {})
    assert advice(replace(verdict, bottlenecks=(uneven,))) is not None


def with_steps(verdict: Verdict, **shares: float) -> Verdict:
    telemetry = watched(600, *[busy(20)] * 4, cpu=INPUT, cpu_count=48)
    steps = host_steps([document(steps=2000, **shares)])
    machine = Machine(600.0, 48, 5.0, verdict.gpus, telemetry.waiting)
    return replace(verdict, bottlenecks=with_limiting_phase(verdict.bottlenecks, steps, machine))


def test_the_advice_is_the_same_if_the_steps_show_the_waiting_for_input():
    verdict = run(*[busy(20)] * 4)
    assert advice(with_steps(verdict, input=0.7)) == advice(verdict)


def test_waiting_for_evaluation_leads_to_no_advice():
    assert advice(with_steps(run(*[busy(20)] * 4), evaluation=0.7)) is None
