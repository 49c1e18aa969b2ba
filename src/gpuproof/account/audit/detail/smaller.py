"""The cheaper instance type that would have done, from values of CloudWatch. Makes no requests.

The utilization by the minute says less than the measurements of a run (`backends/advice/rightsizing.py`), so less follows from it:

- Types with fewer GPUs of the same model, where the sum of a host's utilization shows that the others did nothing.
- For a host whose work is on one GPU: a type with another model of which the memory holds what was used, if its work fits. What was
  90 % of the minutes, times the ratio of the GPUs' peaks, has to be 90 % at most. This is an estimate.

Processors and host memory have to be 1.25 times what was used.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpuproof.account.audit.judge import probably_working
from gpuproof.account.audit.row import AuditRow
from gpuproof.account.cleanup.resource import Kind
from gpuproof.agent.verdict import PARTLY_USED, USED
from gpuproof.backends.advice.rightsizing import LEAST_SECONDS
from gpuproof.catalogue import Catalogue, InstanceQuery
from gpuproof.catalogue.model import Gpu, Instance, JobKind
from gpuproof.units import CountRange
from gpuproof.util.humanize import format_bytes, pluralize

USES: dict[Kind, JobKind] = {
    Kind.TRAINING: "training",
    Kind.PROCESSING: "processing",
    Kind.TRANSFORM: "transform",
    Kind.ENDPOINT: "endpoint",
}
"""What SageMaker's prices call each kind."""

_HEADROOM = 1.25
_FULL = 0.9
_LEAST_SAVING = 0.1
"""Smaller savings, as a share, are not worth a change."""


@dataclass(frozen=True)
class Smaller:
    """A cheaper instance type.

    Args:
        saving: USD per hour, of all instances.
        gpus: how many GPUs of each instance are needed.
        memory: bytes of GPU memory that were used at most; None if unknown.
        is_estimate: whether it has GPUs of another model, whose speed is estimated, or a price is derived.
    """

    instance: Instance
    count: int
    saving: float
    gpus: int
    memory: int | None
    is_estimate: bool
    other_gpu: bool

    @property
    def text(self) -> str:
        """The advice in a sentence or two."""
        name = f"`{self.instance.name}`" if self.count == 1 else f"{self.count} x `{self.instance.name}`"
        gpus = f"{pluralize(self.instance.gpu_count, 'GPU')} ({self.instance.gpu_model})"
        less = f"{'~' if self.is_estimate else ''}${self.saving:,.2f} less per hour"
        if not self.other_gpu:
            needed = "1 GPU was" if self.gpus == 1 else f"{self.gpus} GPUs were"
            return f"{name} with {gpus} would do, for {less}: {needed} in use."
        used = (
            ""
            if self.memory is None
            else f"{format_bytes(self.memory)} of GPU memory were used at most, and "
        )
        return (
            f"{name} with {gpus} would probably do, for {less}: {used}the ratio of the GPUs' peaks leaves room for the work. "
            "Try a few minutes first: `gpuproof plan` estimates the time of a step on both."
        )


def smaller_instance(row: AuditRow, catalogue: Catalogue, host_memory: float | None = None) -> Smaller | None:
    """The cheapest instance type that would have done; None if none is certain enough, or saves a tenth.

    Args:
        host_memory: the most of its memory that a host used, in percent; None if unknown.
    """
    workload, found = row.workload, row.judgement
    use = USES.get(workload.kind)
    types = {fleet.instance_type for fleet in workload.fleets}
    current = catalogue.instance(next(iter(types))) if len(types) == 1 else None
    if use is None or current is None or found.outcome not in (USED, PARTLY_USED) or current.fraction != 1.0:
        return None
    if (workload.active_seconds or 0.0) < LEAST_SECONDS or not all(host.gpu.values for host in row.hosts):
        return None
    needs = _Needs.of(row, current, host_memory)
    price = catalogue.price(current.name, workload.region, use)
    if needs is None or price is None:
        return None
    count = workload.instance_count
    query = InstanceQuery(count=CountRange(low=1), region=workload.region, use=use, arch=current.arch)
    for candidate in catalogue.search(query):
        of_it = catalogue.price(candidate.name, workload.region, use)
        if of_it is None or candidate.status != "offered" or candidate.fraction != 1.0:
            continue
        saving = (price.usd_per_hour - of_it.usd_per_hour) * count
        if saving < _LEAST_SAVING * price.usd_per_hour * count:
            return None  # the others cost more still
        if not needs.fit(candidate, current, catalogue):
            continue
        other = candidate.gpu_model != current.gpu_model
        derived = "derived" in (price.kind, of_it.kind)
        return Smaller(candidate, count, saving, needs.gpus, needs.gpu_memory, other or derived, other)
    return None


@dataclass(frozen=True)
class _Needs:
    """What the busiest host needs: GPUs, cores, bytes of host memory, bytes of each GPU, and its work as a share of one GPU."""

    gpus: int
    cores: float
    memory: float
    gpu_memory: int | None
    work: float | None

    @staticmethod
    def of(row: AuditRow, current: Instance, host_memory: float | None) -> _Needs | None:
        gpus = [probably_working(host) for host in row.hosts if host.busy_s]
        cores = [host.cpu_cores for host in row.hosts if host.cpu_cores is not None]
        if not gpus or None in gpus or len(cores) < len(row.hosts) or current.memory is None:
            return None
        needed = max(count or 0 for count in gpus)
        peaks = [host.memory_peak for host in row.hosts]
        known = [peak for peak in peaks if peak is not None]
        memory = current.memory * (1.0 if host_memory is None else min(1.0, host_memory / 100 * _HEADROOM))
        return _Needs(
            needed,
            max(cores) * _HEADROOM,
            memory,
            # All of it may be on one GPU: the sum is all that is published.
            int(min(100.0, max(known)) / 100 * current.gpu_memory) if len(known) == len(peaks) else None,
            max(host.p90 or 0.0 for host in row.hosts) / 100 if needed == 1 else None,
        )

    def fit(self, candidate: Instance, current: Instance, catalogue: Catalogue) -> bool:
        """Whether a type has enough of everything."""
        enough = (
            candidate.gpu_count >= self.gpus
            and (candidate.vcpus or 0) >= self.cores
            and (candidate.memory or 0) >= self.memory
        )
        if not enough or candidate.gpu_model == current.gpu_model:
            return enough
        if self.work is None or self.gpu_memory is None:
            return False
        before, after = (catalogue.gpu(name or "") for name in (current.gpu_model, candidate.gpu_model))
        if before is None or after is None or after.vendor != before.vendor:
            return False
        ratio = max(_ratios(before, after), default=None)
        return (
            ratio is not None
            and self.work * ratio <= _FULL
            and self.gpu_memory <= _FULL * candidate.gpu_memory
        )


def _ratios(before: Gpu, after: Gpu) -> Iterator[float]:
    """How many times faster the first GPU is: memory, and arithmetic of each precision; nothing if the second lacks one."""
    pairs = (
        (before.bandwidth, after.bandwidth),
        (before.fp32_tflops, after.fp32_tflops),
        (before.fp16_tflops, after.fp16_tflops),
        (before.bf16_tflops, after.bf16_tflops),
    )
    for fast, slow in pairs:
        if fast:
            yield fast / slow if slow else float("inf")
