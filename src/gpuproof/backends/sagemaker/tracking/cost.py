"""Cost of a SageMaker job: billed seconds times instances times the catalogue's price."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpuproof.backends.aws import SageMakerKind
from gpuproof.catalogue import Catalogue


@dataclass(frozen=True)
class Fleet:
    """Instances of one type.

    Args:
        instance_type: such as `ml.g5.xlarge`.
    """

    instance_type: str
    count: int


@dataclass(frozen=True)
class Bill:
    """The bill of a job.

    Args:
        seconds: billed seconds of each instance.
        usd: the cost at the list price; `None` if the catalogue has no price.
        spot_saving: the share of the time that was not billed because of spot capacity, from 0 to 1; `None` without spot.
        final: whether the job has ended, so that the bill no longer grows.
    """

    seconds: float
    usd: float | None
    spot_saving: float | None
    final: bool


def fleets_of(kind: SageMakerKind, description: Mapping[str, Any]) -> tuple[Fleet, ...]:
    """The instances of a job, from its description."""
    if kind == "processing":
        resources = description.get("ProcessingResources", {}).get("ClusterConfig", {})
    else:
        resources = description.get("ResourceConfig", {})
    # If the job has a list of preferences, this is the chosen one.
    chosen = resources.get("SelectedInstanceType") or resources.get("InstanceType")
    if chosen is not None:
        return (Fleet(chosen, resources.get("SelectedInstanceCount") or resources.get("InstanceCount") or 1),)
    groups: Sequence[Mapping[str, Any]] = resources.get("InstanceGroups", ())
    return tuple(Fleet(group["InstanceType"], group["InstanceCount"]) for group in groups)


@dataclass(frozen=True)
class HourlyPrice:
    """The list price of all instances of a job.

    Args:
        usd: per hour.
        derived: whether the price of one of them is derived from similar prices.
    """

    usd: float
    derived: bool


def hourly_price(
    fleets: Sequence[Fleet], catalogue: Catalogue, region: str, kind: SageMakerKind
) -> HourlyPrice | None:
    """The list price of all instances together; `None` if the price of one of them is unknown."""
    total, derived = 0.0, False
    for fleet in fleets:
        price = catalogue.price(fleet.instance_type, region, kind)
        if price is None:
            return None
        total += price.usd_per_hour * fleet.count
        derived |= price.kind == "derived"
    return HourlyPrice(total, derived) if fleets else None


def bill_of(
    kind: SageMakerKind, description: Mapping[str, Any], usd_per_hour: float | None, now: float
) -> Bill | None:
    """The bill of a job so far; `None` before its instances run.

    SageMaker reports the billed seconds of training jobs that have ended; with managed spot training they already include
    the saving: 1 - billable / training time. Before that, and for processing jobs, the time since the start counts.

    Args:
        description: the response of DescribeTrainingJob or DescribeProcessingJob.
        usd_per_hour: the price of all instances together.
        now: the time in AWS's response, in seconds since the epoch.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DescribeTrainingJob.html
    """
    word = "Training" if kind == "training" else "Processing"
    started, ended = description.get(f"{word}StartTime"), description.get(f"{word}EndTime")
    billed = description.get("BillableTimeInSeconds")
    if billed is None:
        if started is None:
            return None
        until = ended.timestamp() if ended is not None else now
        billed = max(0.0, until - started.timestamp())
    usd = None if usd_per_hour is None else billed * usd_per_hour / 3600
    trained = description.get("TrainingTimeInSeconds")
    saving = None
    if description.get("EnableManagedSpotTraining") and trained and "BillableTimeInSeconds" in description:
        saving = max(0.0, 1 - billed / trained)
    return Bill(float(billed), usd, saving, ended is not None)
