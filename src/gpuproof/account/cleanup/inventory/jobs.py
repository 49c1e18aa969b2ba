"""Jobs of SageMaker that run now, warm pools, and HyperPod clusters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from gpuproof.account.cleanup.inventory.region import Region
from gpuproof.account.cleanup.resource import Action, Fleet, HourlyCost, Kind, Resource, is_own
from gpuproof.catalogue.model import JobKind


def collect_training(region: Region) -> list[Resource]:
    """Training jobs that run, and warm pools."""
    aws = region.aws
    running = region.read("training jobs", "sagemaker", lambda: list(aws.running_training_jobs())) or []
    pools = region.read("warm pools", "sagemaker", lambda: list(aws.warm_pools())) or []
    names = [pool["TrainingJobName"] for pool in (*running, *pools)]
    described = region.read_each(
        "prices of training jobs", "sagemaker", lambda name: aws.describe_job("training", name), names
    )
    found = dict(zip(names, described, strict=True))
    return [
        *(_training(region, job, found.get(job["TrainingJobName"])) for job in running),
        *(_pool(region, pool, found.get(pool["TrainingJobName"])) for pool in pools),
    ]


def collect_other(region: Region) -> list[Resource]:
    """Processing, transform and tuning jobs that run."""
    aws = region.aws
    processing = (
        region.read(
            "processing jobs", "sagemaker", lambda: list(aws.list_jobs("processing", status="InProgress"))
        )
        or []
    )
    tuning = region.read("tuning jobs", "sagemaker", lambda: list(aws.tuning_jobs("InProgress"))) or []
    processed = region.read_each(
        "prices of processing jobs",
        "sagemaker",
        lambda job: aws.describe_job("processing", job["ProcessingJobName"]),
        processing,
    )
    return [
        *(
            _job(region, Kind.PROCESSING, "Processing", "processing", job, processing_fleets(more))
            for job, more in zip(processing, processed, strict=True)
        ),
        *(
            _job(region, Kind.TRANSFORM, "Transform", "transform", job, transform_fleets(more))
            for job, more in region.transform_jobs() or ()
        ),
        *(_tuning(region, job) for job in tuning),
    ]


def collect_clusters(region: Region) -> list[Resource]:
    """HyperPod clusters, with the instances that they have now."""
    clusters = region.read("HyperPod clusters", "sagemaker", lambda: list(region.aws.clusters())) or []
    nodes = region.read_each(
        "prices of HyperPod clusters",
        "sagemaker",
        lambda cluster: region.aws.cluster_nodes(cluster["ClusterName"]),
        clusters,
    )
    return [_cluster(region, cluster, some) for cluster, some in zip(clusters, nodes, strict=True)]


def _training(region: Region, summary: Mapping[str, Any], job: Mapping[str, Any] | None) -> Resource:
    spot = bool(job and job.get("EnableManagedSpotTraining"))
    note = "spot: it costs less, SageMaker reports how much at the end" if spot else ""
    if job and job.get("TuningJobArn"):
        note = f"of the tuning job {job['TuningJobArn'].rpartition('/')[2]}"
    return _job(region, Kind.TRAINING, "Training", "training", summary, training_fleets(job), note)


def _job(
    region: Region,
    kind: Kind,
    word: str,
    use: JobKind,
    summary: Mapping[str, Any],
    fleets: tuple[Fleet, ...],
    note: str = "",
) -> Resource:
    arn = summary[f"{word}JobArn"]
    tags = region.read("tags of jobs", "sagemaker", lambda: region.aws.tags(arn))
    return Resource(
        kind,
        region.name,
        summary[f"{word}JobName"],
        arn,
        summary[f"{word}JobStatus"],
        Action.STOP,
        fleets,
        region.cost(fleets, use) if fleets else None,
        region.has_gpu(fleets) or not fleets,
        summary["CreationTime"].timestamp(),
        tags=tags,
        owned=is_own(tags),
        note=note,
    )


def _pool(region: Region, summary: Mapping[str, Any], job: Mapping[str, Any] | None) -> Resource:
    arn = summary["TrainingJobArn"]
    fleets = training_fleets(job)
    tags = region.read("tags of jobs", "sagemaker", lambda: region.aws.tags(arn))
    ended = summary.get("TrainingEndTime")
    since = None if ended is None else ended.timestamp()
    return Resource(
        Kind.WARM_POOL,
        region.name,
        summary["TrainingJobName"],
        arn,
        "Available",
        Action.RELEASE,
        fleets,
        region.cost(fleets, "training") if fleets else None,
        region.has_gpu(fleets) or not fleets,
        since,
        None if since is None else max(0.0, region.now - since),
        tags=tags,
        owned=is_own(tags),
        note="its instances wait for the next training job",
    )


def _tuning(region: Region, one: Mapping[str, Any]) -> Resource:
    arn = one["HyperParameterTuningJobArn"]
    tags = region.read("tags of jobs", "sagemaker", lambda: region.aws.tags(arn))
    return Resource(
        Kind.TUNING,
        region.name,
        one["HyperParameterTuningJobName"],
        arn,
        one["HyperParameterTuningJobStatus"],
        Action.STOP,
        cost=HourlyCost(0.0),
        created=one["CreationTime"].timestamp(),
        tags=tags,
        owned=is_own(tags),
        note="its training jobs are listed themselves",
    )


def _cluster(region: Region, one: Mapping[str, Any], nodes: list[dict[str, Any]] | None) -> Resource:
    name, arn = one["ClusterName"], one["ClusterArn"]
    counts = Counter(node["InstanceType"] for node in nodes or ())
    fleets = tuple(Fleet(name, count) for name, count in sorted(counts.items()))
    tags = region.tags(arn)
    return Resource(
        Kind.CLUSTER,
        region.name,
        name,
        arn,
        one["ClusterStatus"],
        Action.NONE,
        fleets,
        None if nodes is None else region.cost(fleets, "cluster"),
        region.has_gpu(fleets) or nodes is None,
        one["CreationTime"].timestamp(),
        tags=tags,
        owned=is_own(tags),
        loses_data=True,
        note=f"delete it yourself: aws sagemaker delete-cluster --cluster-name {name} --region {region.name}",
    )


def training_fleets(job: Mapping[str, Any] | None) -> tuple[Fleet, ...]:
    """The instances of a training job, from its description; those that SageMaker chose of several types."""
    resources = (job or {}).get("ResourceConfig", {})
    chosen = resources.get("SelectedInstanceType") or resources.get("InstanceType")
    if chosen is not None:
        count = resources.get("SelectedInstanceCount") or resources.get("InstanceCount") or 1
        return (Fleet(chosen, count),)
    groups = resources.get("InstanceGroups") or ()
    return tuple(Fleet(group["InstanceType"], group["InstanceCount"]) for group in groups)


def processing_fleets(job: Mapping[str, Any] | None) -> tuple[Fleet, ...]:
    """The instances of a processing job, from its description."""
    cluster = (job or {}).get("ProcessingResources", {}).get("ClusterConfig", {})
    return (Fleet(cluster["InstanceType"], cluster["InstanceCount"]),) if cluster else ()


def transform_fleets(job: Mapping[str, Any] | None) -> tuple[Fleet, ...]:
    """The instances of a transform job, from its description."""
    resources = (job or {}).get("TransformResources", {})
    return (Fleet(resources["InstanceType"], resources["InstanceCount"]),) if resources else ()
