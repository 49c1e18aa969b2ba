"""What a SageMaker job costs: billed seconds times instances times the catalogue's price. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpuproof.backends.aws import SageMakerKind
from gpuproof.catalogue import Catalogue


@dataclass(frozen=True)
class Fleet:
    """So many instances of one type.

    Args:
        instance_type: such as `ml.g5.xlarge`.
        count: how many.
    """

    instance_type: str
    count: int


@dataclass(frozen=True)
class Bill:
    """What is billed for a job.

    Args:
        seconds: of each instance.
        usd: at the list price; `None` where the catalogue knows no price.
        spot_saving: the share of the time that managed spot did not bill, from 0 to 1; `None` without spot.
        final: whether the job has ended, so that no more is added.
    """

    seconds: float
    usd: float | None
    spot_saving: float | None
    final: bool


def fleets_of(kind: SageMakerKind, description: Mapping[str, Any]) -> tuple[Fleet, ...]:
    """What a job runs on, by its description."""
    if kind == "processing":
        resources = description.get("ProcessingResources", {}).get("ClusterConfig", {})
    else:
        resources = description.get("ResourceConfig", {})
    # With a list of preferences SageMaker says here which of them it got.
    chosen = resources.get("SelectedInstanceType") or resources.get("InstanceType")
    if chosen is not None:
        return (Fleet(chosen, resources.get("SelectedInstanceCount") or resources.get("InstanceCount") or 1),)
    groups: Sequence[Mapping[str, Any]] = resources.get("InstanceGroups", ())
    return tuple(Fleet(group["InstanceType"], group["InstanceCount"]) for group in groups)


def hourly_price(
    fleets: Sequence[Fleet], catalogue: Catalogue, region: str, kind: SageMakerKind
) -> float | None:
    """USD per hour of all instances together, at the list price; `None` where one of them has no known price."""
    total = 0.0
    for fleet in fleets:
        price = catalogue.price(fleet.instance_type, region, kind)
        if price is None:
            return None
        total += price.usd_per_hour * fleet.count
    return total if fleets else None


def bill_of(
    kind: SageMakerKind, description: Mapping[str, Any], usd_per_hour: float | None, now: float
) -> Bill | None:
    """What is billed for a job so far; `None` before its instances run.

    SageMaker tells billed seconds of training jobs that have ended; with managed spot they hold the saving already:
    1 - billable / training time. Until then, and for processing jobs, the time since the start counts.

    Args:
        description: DescribeTrainingJob's or DescribeProcessingJob's answer.
        usd_per_hour: of all instances together.
        now: AWS's time, in seconds since the epoch.

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
