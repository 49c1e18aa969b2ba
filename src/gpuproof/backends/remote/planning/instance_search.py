"""Finds instance types for a job's `resources`, and lists alternatives for messages."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from gpuproof.catalogue import Catalogue
from gpuproof.catalogue.model import Instance, JobKind, Market, Price
from gpuproof.catalogue.prices import hourly_text
from gpuproof.catalogue.search import InstanceQuery
from gpuproof.jobs.models.script_jobs import Job
from gpuproof.settings import today

MOST_CANDIDATES = 4
"""Number of types to try for `resources`: further ones cost much more than the first."""

SHOWN = 3
"""Number of alternatives in a message."""


@dataclass(frozen=True)
class Candidate:
    """An instance type.

    Args:
        name: such as `g5.xlarge`, or `ml.g5.xlarge` on SageMaker.
        instance: the catalogue's facts; None for an unknown type.
        price: the on-demand price; None if unknown.
    """

    name: str
    instance: Instance | None
    price: Price | None

    @property
    def gpus(self) -> int:
        """Number of GPUs; 0 if unknown."""
        return self.instance.gpu_count if self.instance is not None else 0


@dataclass(frozen=True)
class InstanceChoice:
    """The instance types to try.

    Args:
        candidates: in order; at least one.
    """

    candidates: tuple[Candidate, ...]
    warnings: tuple[str, ...] = ()


def resource_query(
    job: Job, region: str, *, use: JobKind | None, any_price: bool, market: Market = "on-demand"
) -> InstanceQuery:
    """The query for the types that match a job's `resources`.

    Args:
        use: the kind of job on SageMaker; None for EC2.
        any_price: whether `max_price` does not apply to the on-demand price.
        market: whose prices order the types.
    """
    wanted = job.resources
    return InstanceQuery(
        gpus=wanted.gpu.names if wanted.gpu else (),
        count=wanted.gpu.count if wanted.gpu else None,
        gpu_memory=wanted.gpu_memory,
        memory=wanted.memory,
        cpus=wanted.cpus,
        region=region,
        service="sagemaker" if use else "ec2",
        use=use,
        max_price=None if wanted.max_price is None or any_price else float(wanted.max_price.usd),
        market=market,
    )


def list_alternatives(
    name: str,
    kind: JobKind | None,
    catalogue: Catalogue,
    region: str,
    *,
    flag: str = "--instance-type",
    without: Collection[str] = (),
) -> str:
    """Other types for the same job as command-line flags, one per line; empty if none are known.

    Args:
        kind: the kind of job on SageMaker; None for EC2.
    """
    instances = [alternative.instance for alternative in catalogue.alternatives(name, kind, region)]
    others = [instance for instance in instances if instance.name not in without]
    return instance_lines(others[:SHOWN], kind, catalogue, region, flag)


def nearest_regions_line(request: InstanceQuery, catalogue: Catalogue) -> str:
    """The nearest regions that offer a matching type, as a line; empty if none does, or if the region itself does."""
    region = request.region or ""
    types = {
        instance.ec2_type for instance in catalogue.search(replace(request, region=None, max_price=None))
    }
    offering = [region for region in catalogue.regions() if types & set(catalogue.region(region))]
    if not offering or region in offering or not catalogue.region(region):
        return ""
    near = catalogue.nearest_regions(region, offering)[:SHOWN]
    return f"Nearest regions that offer it: {', '.join(near)} (--region)\n" if near else ""


def instance_lines(
    instances: Sequence[Instance],
    kind: JobKind | None,
    catalogue: Catalogue,
    region: str,
    flag: str = "--instance-type",
) -> str:
    """Instance types as command-line flags with their GPUs and prices, one per line."""
    lines: list[str] = []
    for instance in instances:
        price = catalogue.price(instance.name, region, kind)
        what = f"{instance.whole_gpus:g} x {instance.gpu_model}" if instance.gpu_model else _host(instance)
        cost = f", {hourly_text(price, today())}" if price else ""
        lines.append(f"{flag} {instance.name}  ({what}{cost})")
    return "\n".join(lines)


def requirements_text(job: Job) -> str:
    """What the job's `resources` require, for a message."""
    wanted = job.resources
    parts = {
        "gpu": wanted.gpu,
        "gpu_memory": wanted.gpu_memory,
        "memory": wanted.memory,
        "cpus": wanted.cpus,
        "max_price": wanted.max_price,
    }
    return ", ".join(f"{key}: {value}" for key, value in parts.items() if value is not None)


def _host(one: Instance) -> str:
    kind = "no GPU" if one.accelerator == "none" else one.accelerator
    memory = f", {one.memory / 2**30:g} GiB" if one.memory else ""
    return f"{kind}, {one.vcpus} vCPU{memory}"
