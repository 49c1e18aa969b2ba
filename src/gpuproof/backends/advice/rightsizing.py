"""Finds an instance type that costs less and has enough GPUs, processors and memory for the work that was measured."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpuproof.agent.verdict import PARTLY_USED, USED, Bottleneck, Verdict
from gpuproof.catalogue import Catalogue, InstanceQuery
from gpuproof.catalogue.model import Instance, JobKind, Price
from gpuproof.units import CountRange
from gpuproof.util.humanize import format_share, pluralize

LEAST_SECONDS = 300.0
"""A shorter run says little about the next one."""
_GPU_HEADROOM = 0.9
"""GPUs are never busy all the time: their work has to fit into this share."""
_CORES_HEADROOM = 1.25
_MEMORY_HEADROOM = 0.8
_SLOWEST = 1.5
"""A run that takes longer than this is another run."""
_LEAST_SHARE, _LEAST_USD = 0.1, 0.1
"""Smaller savings per hour, as a share and in USD, are not worth a change."""
_UNSURE = frozenset({"disk", "unexplained"})
"""Waiting for what may be slower on a smaller instance."""
_INPUT = frozenset({"one-core", "all-cores"})


@dataclass(frozen=True)
class Rightsizing:
    """A cheaper choice of instances.

    Args:
        saving: USD per hour.
        is_derived: whether a price is derived from similar ones.
        slowdown: how many times longer the same work takes at least; 1.0 if it takes no longer.
        utilization: mean utilization of the GPUs that worked, in percent.
        waits_for_input: whether the GPUs waited for the input pipeline.
        cores: processor cores that the job used on average, on all hosts.
    """

    instance: Instance
    count: int
    saving: float
    is_derived: bool
    slowdown: float
    gpus_working: int
    gpus_present: int
    utilization: float
    waits_for_input: bool
    cores: float

    @property
    def text(self) -> str:
        """The advice in a sentence or two."""
        kept = f"{self.gpus_working} of {pluralize(self.gpus_present, 'GPU')}"
        waiting = ", waiting for input" if self.waits_for_input else ""
        name = f"`{self.instance.name}`" if self.count == 1 else f"{self.count} x `{self.instance.name}`"
        less = f"{'~' if self.is_derived else ''}${self.saving:,.2f} less per hour"
        if self.slowdown > 1.0:
            gpus = pluralize(self.count * self.instance.gpu_count, "GPU")
            longer = format_share(self.slowdown - 1.0)
            choice = f"on {name} ({gpus}) the same work would take at least {longer} longer, for {less}"
        else:
            choice = f"{name} would do the same for {less}"
        if not self.waits_for_input:
            return f"{kept} worked: {choice}."
        return (
            f"{kept} busy {format_share(self.utilization / 100)} of the time{waiting}: {choice}, if its input pipeline "
            f"keeps {self.cores:.1f} cores busy, as here. Fix the input pipeline first: these GPUs could do more."
        )


def rightsize(
    verdict: Verdict, instance_type: str, count: int, catalogue: Catalogue, *, region: str, use: JobKind
) -> Rightsizing | None:
    """The cheapest instances with GPUs of the same model on which the job would do as well; `None` if there are none.

    Conclusions are drawn only for GPUs of the same model, and only from what was measured:

    - GPUs that did nothing are not needed.
    - If the GPUs waited for the input pipeline, the work of n GPUs, the sum of their utilizations, fits on as many GPUs as
      that sum divided by 0.9, rounded up. On fewer GPUs it takes at least sum / GPUs times as long.
    - Processors have to be 1.25 times the cores that the job used, and memory 1.25 times its peak. If all cores were busy,
      the number of processors must not shrink.
    - If the GPUs waited for storage or for an unknown reason, nothing follows: it may be slower on a smaller instance.

    Args:
        instance_type: of the run, such as `ml.g5.12xlarge`; types of the other kind, EC2 or SageMaker, do not count.
        region: whose prices count; types without a price there do not count.
        use: the kind of job; on SageMaker, only types that it takes count.
    """
    current = catalogue.instance(instance_type)
    if current is None or not _is_certain(verdict, current, count):
        return None
    kind = use if current.on_sagemaker else None
    price = catalogue.price(instance_type, region, kind)
    needs = _Needs.of(verdict, count)
    if price is None or needs is None:
        return None
    query = InstanceQuery(
        gpus=(current.gpu_model or "",),
        count=CountRange(low=1),
        region=region,
        service="sagemaker" if current.on_sagemaker else "ec2",
        use=kind,
        arch=current.arch,
    )
    choices = [
        choice
        for candidate in catalogue.search(query)
        if candidate.status == "offered"
        and candidate.gpu_memory >= current.gpu_memory
        and candidate.fraction == 1.0
        if (of_it := catalogue.price(candidate.name, region, kind)) is not None
        for choice in _choices(candidate, of_it, current, price, count, needs, verdict)
    ]
    usual = [choice for choice in choices if choice.slowdown == 1.0]
    slower = [choice for choice in choices if choice.slowdown > 1.0 and _costs_less(choice, price, count)]
    return max(usual or slower, key=lambda choice: choice.saving, default=None)


@dataclass(frozen=True)
class _Needs:
    """What the job needs, on the busiest host and on all hosts together: GPUs, their work in GPUs, cores, bytes."""

    host_gpus: int
    host_work: float
    host_cores: float
    all_gpus: int
    all_work: float
    all_cores: float
    memory: int
    waits_for_input: bool
    all_cores_busy: bool

    @staticmethod
    def of(verdict: Verdict, count: int) -> _Needs | None:
        kinds = {_waiting_kind(bottleneck) for bottleneck in verdict.bottlenecks}
        working = [gpu for gpu in verdict.gpus if gpu.worked]
        hosts: dict[str | None, list[float]] = {}
        for gpu in working:
            if gpu.mean_utilization is None:
                return None
            hosts.setdefault(gpu.host, []).append(gpu.mean_utilization / 100)
        summaries = [host.processes for host in verdict.hosts] if verdict.hosts else [verdict.processes]
        cores = [summary.mean_cpu_percent / 100 for summary in summaries if summary is not None]
        if kinds & _UNSURE or len(cores) < count or verdict.processes is None:
            return None
        return _Needs(
            host_gpus=max(len(work) for work in hosts.values()),
            host_work=max(sum(work) for work in hosts.values()),
            host_cores=max(cores),
            all_gpus=len(working),
            all_work=sum(sum(work) for work in hosts.values()),
            all_cores=sum(cores),
            memory=verdict.processes.peak_rss,
            waits_for_input=bool(kinds & _INPUT),
            all_cores_busy="all-cores" in kinds,
        )


def _waiting_kind(bottleneck: Bottleneck) -> str | None:
    """What the CPU and the storage did while the GPUs waited for input.

    `unexplained` if they waited for anything else, and `None` if it was not measured.
    """
    if bottleneck.head is None:
        return bottleneck.kind
    meanwhile = bottleneck.numbers.get("while")
    if not isinstance(meanwhile, str):
        return None
    return meanwhile if bottleneck.kind == "input" else "unexplained"


def _is_certain(verdict: Verdict, current: Instance, count: int) -> bool:
    return (
        verdict.outcome in (USED, PARTLY_USED)
        and verdict.seconds >= LEAST_SECONDS
        and current.fraction == 1.0
        and len(verdict.hosts or (verdict,)) == count
        and verdict.gpus_present == current.gpu_count * count
        and all(gpu.worked is not None and not gpu.others_present for gpu in verdict.gpus)
    )


def _choices(
    candidate: Instance,
    price: Price,
    current: Instance,
    current_price: Price,
    count: int,
    needs: _Needs,
    verdict: Verdict,
) -> Iterator[Rightsizing]:
    for number in sorted({1, count}):
        alone = number == 1
        gpus, work, cores = (
            (needs.all_gpus, needs.all_work, needs.all_cores)
            if alone
            else (needs.host_gpus, needs.host_work, needs.host_cores)
        )
        memory = needs.memory * (count if alone else 1)
        saving = current_price.usd_per_hour * count - price.usd_per_hour * number
        enough = (
            saving >= max(_LEAST_USD, _LEAST_SHARE * current_price.usd_per_hour * count)
            and (candidate.vcpus or 0) >= math.ceil(cores * _CORES_HEADROOM)
            and (candidate.memory or 0) * _MEMORY_HEADROOM >= memory
            and (not needs.all_cores_busy or (candidate.vcpus or 0) * number >= (current.vcpus or 0) * count)
            # Between hosts, a slower network would be the next bottleneck.
            and (
                number == 1 or (candidate.network_baseline_gbps or 0) >= (current.network_baseline_gbps or 0)
            )
        )
        slowdown = _slowdown(candidate.gpu_count, gpus, work, needs.waits_for_input)
        if enough and slowdown is not None:
            yield Rightsizing(
                candidate,
                number,
                saving,
                "derived" in (price.kind, current_price.kind),
                slowdown,
                verdict.gpus_working,
                verdict.gpus_present,
                _mean([gpu.mean_utilization or 0.0 for gpu in verdict.gpus if gpu.worked]),
                needs.waits_for_input,
                needs.all_cores,
            )


def _slowdown(there: int, gpus: int, work: float, waits_for_input: bool) -> float | None:
    """How many times longer the work takes at least on fewer GPUs; `None` if that is unknown, or too long."""
    if there >= gpus:
        return 1.0
    if not waits_for_input:
        return None
    if there >= math.ceil(work / _GPU_HEADROOM):
        return 1.0
    slowdown = max(1.0, work / there)
    return slowdown if slowdown <= _SLOWEST else None


def _costs_less(one: Rightsizing, price: Price, count: int) -> bool:
    """Whether a run that takes longer still costs less, by more than its estimate can be wrong."""
    before = price.usd_per_hour * count
    return (before - one.saving) * one.slowdown <= 0.7 * before


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
