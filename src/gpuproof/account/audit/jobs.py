"""Training, processing and batch transform jobs with GPUs that run or have ended since a time.

Namespaces, metrics and dimensions: https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-cloudwatch.html, "Processing Job, Training
Job, Batch Transform Job, and Endpoint Instance Metrics": the `Host` of training and processing jobs is `NAME/algo-N`, that of transform
jobs `NAME/INSTANCE-ID`; GPUUtilization and GPUMemoryUtilization are from 0 to 100 times the number of GPUs, CPUUtilization from 0 to 100
times the number of cores.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from gpuproof.account.audit.hardware import gpu_name, gpus_each, gpus_of, may_have_gpu, with_gpu
from gpuproof.account.audit.workload import Metric, Source, Workload
from gpuproof.account.cleanup.inventory.jobs import processing_fleets, training_fleets, transform_fleets
from gpuproof.account.cleanup.inventory.region import Region
from gpuproof.account.cleanup.resource import Fleet, Kind
from gpuproof.catalogue.model import JobKind
from gpuproof.util.humanize import format_duration

TRAINING_JOBS = "/aws/sagemaker/TrainingJobs"
PROCESSING_JOBS = "/aws/sagemaker/ProcessingJobs"
TRANSFORM_JOBS = "/aws/sagemaker/TransformJobs"
GPU_METRIC, MEMORY_METRIC, CPU_METRIC = "GPUUtilization", "GPUMemoryUtilization", "CPUUtilization"

_ENDED = ("Completed", "Failed", "Stopped")
_SKEW_S = 60.0


def collect_training(region: Region, since: float) -> list[Workload]:
    """Training jobs."""
    jobs = region.read("training jobs", "sagemaker", lambda: list(region.aws.training_jobs_since(since)))
    unique = {job["TrainingJobArn"]: job for job in jobs or ()}
    found = [training_workload(region, job) for job in unique.values()]
    return _kept(found, since)


def collect_processing(region: Region, since: float) -> list[Workload]:
    """Processing jobs."""
    listed = region.read(
        "processing jobs", "sagemaker", lambda: list(region.aws.jobs_since("processing", since))
    )
    names = list(dict.fromkeys(job["ProcessingJobName"] for job in listed or ()))
    described = region.read_each(
        "processing jobs", "sagemaker", lambda name: region.aws.describe_job("processing", name), names
    )
    return _kept((processing_workload(region, job) for job in described if job is not None), since)


def collect_transform(region: Region, since: float) -> list[Workload]:
    """Batch transform jobs."""
    listed = region.read(
        "transform jobs", "sagemaker", lambda: list(region.aws.jobs_since("transform", since))
    )
    names = list(dict.fromkeys(job["TransformJobName"] for job in listed or ()))
    described = region.read_each("transform jobs", "sagemaker", region.aws.transform_job, names)
    jobs = [
        job for job in described if job is not None and may_have_gpu(region.catalogue, transform_fleets(job))
    ]
    hosts = transform_hosts(
        region, [job["TransformJobName"] for job in jobs if job.get("TransformStartTime")]
    )
    return _kept((transform_workload(region, job, hosts) for job in jobs), since)


def training_workload(region: Region, job: Mapping[str, Any]) -> Workload | None:
    """A training job from its description; None if it has no GPU, or nothing was billed for it.

    Its program can use the GPUs in the secondary status `Training`; SageMaker bills from TrainingStartTime to TrainingEndTime,
    BillableTimeInSeconds on spot capacity, and its instances while they wait for the next job of a warm pool.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_TrainingJob.html
    """
    transitions = job.get("SecondaryStatusTransitions") or ()
    spans = [
        (transition["StartTime"].timestamp(), _time(transition.get("EndTime")))
        for transition in transitions
        if transition.get("Status") == "Training" and transition.get("StartTime")
    ]
    retained = (job.get("WarmPoolStatus") or {}).get("ResourceRetainedBillableTimeInSeconds") or 0
    notes = (
        *(["of a tuning job"] if job.get("TuningJobArn") else []),
        *([f"{format_duration(retained)} of it in a warm pool after its end"] if retained else []),
    )
    return _job(
        region,
        Kind.TRAINING,
        "Training",
        "training",
        job,
        training_fleets(job),
        TRAINING_JOBS,
        spans=spans if transitions else None,
        billable=job.get("BillableTimeInSeconds"),
        retained=retained,
        is_spot=bool(job.get("EnableManagedSpotTraining")),
        tags={tag["Key"]: tag["Value"] for tag in job.get("Tags") or ()} if "Tags" in job else None,
        notes=notes,
    )


def processing_workload(region: Region, job: Mapping[str, Any]) -> Workload | None:
    """A processing job from its description; None if it has no GPU, or nothing was billed for it."""
    return _job(
        region, Kind.PROCESSING, "Processing", "processing", job, processing_fleets(job), PROCESSING_JOBS
    )


def transform_workload(
    region: Region, job: Mapping[str, Any], hosts: Mapping[str, Sequence[str]]
) -> Workload | None:
    """A batch transform job from its description; None if it has no GPU, or nothing was billed for it.

    Args:
        hosts: the ids of the instances of each job.
    """
    ids = hosts.get(job["TransformJobName"], ())
    return _job(
        region,
        Kind.TRANSFORM,
        "Transform",
        "transform",
        job,
        transform_fleets(job),
        TRANSFORM_JOBS,
        hosts=ids,
    )


def transform_hosts(region: Region, jobs: Sequence[str]) -> dict[str, list[str]]:
    """The ids of the instances of transform jobs, which name their metrics.

    CloudWatch lists metrics for two weeks after their last value; the log streams `NAME/INSTANCE-ID-TIME` stay.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/logging-cloudwatch.html
    """
    if not jobs:
        return {}
    found: dict[str, list[str]] = {}
    published = region.read(
        "utilization of transform jobs",
        "cloudwatch",
        lambda: list(region.aws.published_dimensions(TRANSFORM_JOBS, GPU_METRIC)),
    )
    for dimensions in published or ():
        job, _, instance = dimensions.get("Host", "").partition("/")
        found.setdefault(job, []).append(instance)
    older = [job for job in jobs if job not in found]
    streams = region.read_each(
        "instances of transform jobs",
        "logs",
        lambda job: region.aws.log_streams(TRANSFORM_JOBS, f"{job}/"),
        older,
    )
    for job, of_job in zip(older, streams, strict=True):
        names = (stream.name.split("/")[1].rpartition("-")[0] for stream in of_job or ())
        found[job] = sorted({name for name in names if name})
    return found


def _kept(found: Iterable[Workload | None], since: float) -> list[Workload]:
    """Those that run, or have ended since a time: AWS also lists jobs that only changed."""
    return [job for job in found if job is not None and (job.is_running or (job.end or since) >= since)]


def _job(
    region: Region,
    kind: Kind,
    word: str,
    use: JobKind,
    job: Mapping[str, Any],
    fleets: tuple[Fleet, ...],
    namespace: str,
    *,
    spans: Sequence[tuple[float, float | None]] | None = None,
    billable: float | None = None,
    retained: float = 0.0,
    is_spot: bool = False,
    tags: Mapping[str, str] | None = None,
    hosts: Sequence[str] | None = None,
    notes: tuple[str, ...] = (),
) -> Workload | None:
    """A job of any kind.

    Args:
        word: the beginning of the names of its members, such as `Training` of `TrainingJobName`.
        retained: seconds for which its instances were billed after its end.
        spans: when its program ran, by SageMaker; all the billed time if None.
        hosts: the second parts of the `Host` dimension; `algo-1`, `algo-2`, … if None.
    """
    catalogue, name, status = region.catalogue, job[f"{word}JobName"], job[f"{word}JobStatus"]
    began, ended = _time(job.get(f"{word}StartTime")), _time(job.get(f"{word}EndTime"))
    if not may_have_gpu(catalogue, fleets) or (began is None and status in _ENDED):
        return None
    running = status not in _ENDED
    until = region.now if running or ended is None else ended
    elapsed = 0.0 if began is None else max(0.0, until - began)
    billed = (elapsed if billable is None else float(billable)) + retained
    start, end, active = _active(spans, began, None if running else ended, until)
    cost = region.cost(fleets, use)
    count, each = sum(fleet.count for fleet in fleets), gpus_each(catalogue, fleets)
    names = [f"algo-{number}" for number in range(1, count + 1)] if hosts is None else hosts
    unmeasured = ""
    if start is None:
        unmeasured = "Its program has not started." if running else "Its program never started."
    elif not names:
        unmeasured = (
            "The ids of its instances, which name its metrics, are neither in CloudWatch nor in its log."
        )
    return Workload(
        kind=kind,
        region=region.name,
        name=name,
        arn=job[f"{word}JobArn"],
        status=status,
        fleets=fleets,
        gpus=gpus_of(catalogue, fleets),
        gpu_name=gpu_name(catalogue, fleets),
        hosts_without_gpu=count - sum(fleet.count for fleet in with_gpu(catalogue, fleets)),
        created=_time(job.get("CreationTime")),
        start=start,
        end=end,
        active_seconds=active,
        billed_seconds=billed,
        usd_per_hour=None if cost is None else cost.usd,
        is_estimate=bool(cost and cost.derived) or (is_spot and running),
        is_spot=is_spot,
        is_running=running,
        tags=tags,
        role=str(job.get("RoleArn", "")).rpartition("/")[2],
        sources=() if unmeasured else tuple(_source(namespace, name, host, each) for host in names),
        unmeasured=unmeasured,
        notes=(*notes, *_clock_notes(began, ended, region.now)),
    )


def _source(namespace: str, job: str, host: str, gpus: int | None) -> Source:
    dimensions = (("Host", f"{job}/{host}"),)
    return Source(
        host,
        gpus,
        Metric(namespace, GPU_METRIC, dimensions),
        Metric(namespace, MEMORY_METRIC, dimensions),
        Metric(namespace, CPU_METRIC, dimensions),
    )


def _active(
    spans: Sequence[tuple[float, float | None]] | None,
    began: float | None,
    ended: float | None,
    until: float,
) -> tuple[float | None, float | None, float | None]:
    """When its program started and ended, and how many seconds it ran; the start is None if it did not start."""
    if spans is None:
        return began, ended, None if began is None else max(0.0, until - began)
    if not spans:
        return None, ended, 0.0
    seconds = sum(max(0.0, (until if end is None else end) - start) for start, end in spans)
    last = spans[-1][1]
    return spans[0][0], ended if last is None else last, seconds


def _clock_notes(began: float | None, ended: float | None, now: float) -> tuple[str, ...]:
    """Remarks on times that cannot be right."""
    newest = max((moment for moment in (began, ended) if moment is not None), default=now)
    if newest > now + _SKEW_S:
        return (f"this machine's clock is {newest - now:.0f} s or more behind AWS's",)
    if began is not None and ended is not None and ended < began:
        return ("AWS reports an end before the start",)
    return ()


def _time(moment: datetime | None) -> float | None:
    return None if moment is None else moment.timestamp()
