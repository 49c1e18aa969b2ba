"""What a plan on EC2 shows: its instance types with their prices, its network, volume and limits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gpuproof.backends.ec2.spot_retries import SpotRetries
from gpuproof.backends.ec2.target import EC2Target
from gpuproof.catalogue.prices import DERIVED, is_old, mark
from gpuproof.jobs.models.script_jobs import Job
from gpuproof.settings import today
from gpuproof.units import Duration
from gpuproof.util.humanize import format_usd


def instances_text(targets: Sequence[EC2Target], hosts: int) -> str:
    """The instance types in their order, with their prices; those of further regions in lines of their own."""
    count = f"{hosts} x " if hosts > 1 else ""
    each = " each" if count else ""
    lines: list[str] = []
    for region in dict.fromkeys(target.region for target in targets):
        there = [target for target in targets if target.region == region]
        first, *others = [f"{target.name}{_price_text(target, each)}" for target in there]
        if lines:
            lines.append(f"else in {region}: {count}{', '.join([first, *others])}{_as_of(there)}")
            continue
        lines.append(f"{count}{first}{_as_of(there)}")
        if others:
            lines.append(f"else {', '.join(others)}")
    return "\n".join(lines)


def region_text(targets: Sequence[EC2Target], groups: Sequence[str], hosts: int) -> str:
    """Machine image, zones and security groups of the instance types of a further region.

    Args:
        groups: ids of the security groups; empty if a group is created.
    """
    images = ", ".join(dict.fromkeys(target.ami.id for target in targets))
    return f"{targets[0].region}: {images}; {network_text(targets[0], groups, hosts)}"


def network_text(target: EC2Target, groups: Sequence[str], hosts: int) -> str:
    """The zones and the security groups of an instance type.

    Args:
        groups: ids of the security groups; empty if a group is created.
    """
    zones = ", ".join(zone.name for zone in target.zones)
    new = "a new security group without inbound rules"
    if hosts > 1:
        new = "a new security group, open among its own instances"
    return f"{zones}; {', '.join(groups) or new}"


def volume_text(target: EC2Target) -> str:
    """The root volume, and the local disk that takes its place for the job's files."""
    size = f"{target.volume_gb} GiB gp3, encrypted, deleted with the instance"
    instance = target.instance
    if not target.local_disk or instance is None:
        return size
    return f"{size}; /opt/ml on the instance's local disk ({instance.local_disk // 10**9:,} GB)"


def limit_text(
    targets: Sequence[EC2Target],
    max_cost_usd: Callable[[EC2Target], float | None],
    max_duration: float,
    retries: SpotRetries,
) -> str:
    """The time limit, and the highest possible cost on the first and on the most expensive instance type.

    Args:
        max_cost_usd: the highest possible cost on an instance type; None if its price is unknown.
        max_duration: in seconds.
    """
    text = str(Duration(int(max_duration)))
    if retries.limit:
        text += f", {retries.text}"
    costs = [(cost, target) for target in targets if (cost := max_cost_usd(target)) is not None]
    if not costs:
        return text
    first, first_cost = targets[0], max_cost_usd(targets[0])
    highest, dearest = max(costs, key=lambda cost: cost[0])
    amounts: list[str] = []
    if first_cost is not None:
        amounts.append(f"{mark(first.price)}{format_usd(first_cost)} on {first.name}")
    if dearest is not first and highest > (first_cost or 0):
        where = "" if dearest.region == first.region else f" in {dearest.region}"
        amounts.append(f"{mark(dearest.price)}{format_usd(highest)} on {dearest.name}{where}")
    return f"{text}; at most {', '.join(amounts)}, and the volume"


def spot_text(job: Job, retries: SpotRetries, *, has_checkpoints: bool) -> str:
    """How a job with spot capacity goes on after an interruption, and its highest price."""
    text = "spot capacity: cheaper, but may be reclaimed"
    if retries.limit:
        text += f"; {retries.text}" + (", from its checkpoints" if has_checkpoints else "")
    elif has_checkpoints:
        text += "; the next run of the job continues from its checkpoints"
    if job.ec2.rebalance == "stop":
        text += "; ends when EC2 says that it may take the instance back"
    most = job.resources.max_price
    return text if most is None else f"{text}; at most {most} an hour"


def target_document(target: EC2Target, max_cost_usd: float | None) -> dict[str, Any]:
    """An instance type as JSON.

    Args:
        max_cost_usd: the highest possible cost on it; None if its price is unknown.
    """
    price = target.price
    return {
        "name": target.name,
        "region": target.region,
        "max_usd": max_cost_usd,
        "usd_per_hour": price.usd_per_hour if price else None,
        "price_kind": price.kind if price else None,
        "price_as_of": price.as_of if price else None,
        "spot_usd_per_hour": target.spot_price,
        "image": target.ami.id,
        "container": target.container.uri if target.container is not None else None,
        "zones": [zone.name for zone in target.zones],
        "volume_gib": target.volume_gb,
    }


def _as_of(targets: Sequence[EC2Target]) -> str:
    """The date of the list prices of one region."""
    prices = [target.price for target in targets if target.price]
    if not prices:
        return ""
    oldest = min(prices, key=lambda price: price.as_of)
    old = " (more than a year ago)" if is_old(oldest, today()) else ""
    derived = f"; {DERIVED} is derived from similar prices" if any(map(mark, prices)) else ""
    return f"; list prices in {targets[0].region} as of {oldest.as_of}{old}{derived}"


def _price_text(target: EC2Target, each: str) -> str:
    listed = target.price
    on_demand = "" if listed is None else f"{mark(listed)}{format_usd(listed.usd_per_hour)}"
    if target.spot_price is None:
        return f" at {on_demand} an hour{each}" if on_demand else ""
    spot = f" at {format_usd(target.spot_price)} an hour{each} now"
    return f"{spot} (on demand {on_demand})" if on_demand else spot
