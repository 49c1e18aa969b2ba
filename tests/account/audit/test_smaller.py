"""Which cheaper instance type would have done, from values by the minute."""

from __future__ import annotations

from dataclasses import replace

from gpuproof.account.audit.detail.smaller import Smaller, smaller_instance
from gpuproof.account.audit.judge import judge
from gpuproof.account.audit.row import AuditRow
from gpuproof.account.audit.usage import Samples, host_usage
from gpuproof.account.audit.workload import Workload
from gpuproof.account.cleanup.resource import Fleet, Kind
from gpuproof.catalogue import Catalogue
from gpuproof.catalogue.tables import Tables

CATALOGUE = Catalogue(Tables())
MINUTES = 30


def row(kind: str, gpu: float, *, memory: float = 20.0, cores: float = 2.0, count: int = 1) -> AuditRow:
    """A training job of half an hour with the same values in every minute."""
    instance = CATALOGUE.instance(kind)
    assert instance is not None
    times = tuple(60.0 * number for number in range(MINUTES))

    def samples(value: float) -> Samples:
        return Samples(times, (value,) * MINUTES)

    usage = host_usage(
        "algo-1",
        instance.gpu_count,
        60.0,
        60.0 * MINUTES,
        samples(gpu),
        memory=samples(memory),
        cpu=samples(100 * cores),
    )
    hosts = (usage,) * count
    workload = Workload(
        Kind.TRAINING,
        "us-east-1",
        "job",
        fleets=(Fleet(kind, count),),
        gpus=instance.gpu_count * count,
        active_seconds=60.0 * MINUTES,
    )
    return AuditRow(workload, hosts, judge(hosts, 60.0 * MINUTES))


def smaller(found: AuditRow, host_memory: float | None = 5.0) -> Smaller | None:
    return smaller_instance(found, CATALOGUE, host_memory)


def test_one_gpu_of_four_that_worked_needs_one_of_the_same_model() -> None:
    found = smaller(row("ml.g5.12xlarge", 95.0, memory=95.0))
    assert found is not None
    assert (found.instance.name, found.other_gpu) == ("ml.g5.xlarge", False)
    assert "1 GPU was in use" in found.text


def test_processors_and_host_memory_have_to_suffice() -> None:
    many_cores = smaller(row("ml.g5.12xlarge", 95.0, memory=95.0, cores=10.0))
    assert many_cores is not None
    assert (many_cores.instance.vcpus or 0) >= 12.5
    much_memory = smaller(row("ml.g5.12xlarge", 95.0, memory=95.0), host_memory=30.0)
    assert much_memory is not None
    assert (much_memory.instance.memory or 0) >= 0.375 * 192 * 2**30
    unknown = smaller(row("ml.g5.12xlarge", 95.0, memory=95.0), host_memory=None)
    assert unknown is None or (unknown.instance.memory or 0) >= 192 * 2**30


def test_all_gpus_that_worked_are_needed() -> None:
    assert smaller(row("ml.g5.12xlarge", 390.0, memory=390.0)) is None


def test_a_gpu_of_another_model_needs_room_for_memory_and_work() -> None:
    little = smaller(row("ml.p4d.24xlarge", 90.0, memory=30.0))
    assert little is not None
    lightly = smaller(row("ml.g6e.xlarge", 12.0, memory=15.0))
    assert lightly is not None
    assert lightly.other_gpu
    assert lightly.is_estimate
    assert "probably" in lightly.text
    full_memory = smaller(row("ml.g6e.xlarge", 12.0, memory=95.0))
    assert full_memory is None or full_memory.instance.gpu_memory >= 0.95 * 44 * 2**30
    busy = smaller(row("ml.g6e.xlarge", 95.0, memory=15.0))
    assert busy is None or busy.instance.gpu_model == "L40S"


def test_nothing_follows_from_a_short_job_or_gpus_that_did_nothing() -> None:
    short = row("ml.g5.12xlarge", 95.0)
    assert smaller(replace(short, workload=replace(short.workload, active_seconds=120.0))) is None
    assert smaller(row("ml.g5.12xlarge", 0.0, memory=0.0)) is None


def test_the_number_of_instances_stays() -> None:
    found = smaller(row("ml.g5.12xlarge", 95.0, memory=95.0, count=2))
    assert found is not None
    assert found.count == 2
    assert found.text.startswith("2 x `ml.g5.xlarge`")
