"""What the GPUs of a running job did lately, from the metrics that SageMaker publishes each minute.

A host has one value for all of its GPUs, from 0 to 100 times their number, and 100 times the number of its cores for the CPU. The
dimension `Host` is `NAME/algo-N`.

Source: https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-cloudwatch.html
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpuproof.backends.aws import Aws, SageMakerKind
from gpuproof.backends.aws.services.audit import MetricQuery, MetricValues
from gpuproof.backends.events import GpuReadings
from gpuproof.backends.sagemaker.tracking.records import LOG_GROUPS

PERIOD_S = 60
_PAST_S = 900.0
_METRICS: tuple[str, ...] = ("GPUUtilization", "GPUMemoryUtilization", "CPUUtilization")


def read_live_metrics(
    aws: Aws,
    kind: SageMakerKind,
    job: str,
    hosts: Sequence[str],
    *,
    gpus: int,
    gpu_memory: int,
    now: float,
) -> GpuReadings:
    """The values of the last quarter of an hour, with one request for 166 hosts.

    Args:
        gpus: of each host; `gpu_memory` their bytes each, 0 if unknown.
        now: in seconds since the epoch.
    """
    queries = [
        # The namespace of the metrics is the name of the log group.
        MetricQuery(LOG_GROUPS[kind], metric, (("Host", f"{job}/{host}"),), "Average", PERIOD_S)
        for host in hosts
        for metric in _METRICS
    ]
    start = (now - _PAST_S) // PERIOD_S * PERIOD_S
    values: list[MetricValues] = []
    for first in range(0, len(queries), 498):
        values += aws.metric_values(queries[first : first + 498], start, now + PERIOD_S)
    of_hosts = {
        host: dict(zip(_METRICS, values[3 * number : 3 * number + 3], strict=True))
        for number, host in enumerate(hosts)
    }
    return _readings(of_hosts, gpus, gpu_memory)


def _readings(hosts: Mapping[str, Mapping[str, MetricValues]], gpus: int, gpu_memory: int) -> GpuReadings:
    times = sorted({time for metrics in hosts.values() for time in metrics["GPUUtilization"].times})
    if not times:
        return GpuReadings("cloudwatch", PERIOD_S, {})
    past: dict[tuple[str, int, str], tuple[float | None, ...]] = {}
    samples: list[dict[str, Any]] = []
    use: dict[str, dict[str, float | None]] = {}
    newest: list[float] = []
    for host, metrics in hosts.items():
        utilization = _scaled(metrics["GPUUtilization"], 1 / gpus)
        memory = _scaled(metrics["GPUMemoryUtilization"], gpu_memory / gpus / 100) if gpu_memory else {}
        cores = _scaled(metrics["CPUUtilization"], 0.01)
        use[host] = {"cores": _last(cores), "rss": None}
        past[host, 0, "utilization"] = tuple(utilization.get(time) for time in times)
        past[host, 0, "memory_used"] = tuple(memory.get(time) for time in times)
        if utilization:
            newest.append(max(utilization) + PERIOD_S)
        used = _last(memory)
        samples.append(
            {
                "host": host,
                "index": 0,
                "count": gpus,
                "utilization": _last(utilization),
                "memory_used": None if used is None else round(used),
                "memory_total": gpu_memory or None,
            }
        )
    return GpuReadings(
        "cloudwatch", PERIOD_S, {"gpus": samples, "host_use": use}, min(newest), tuple(times), past
    )


def _scaled(values: MetricValues, factor: float) -> dict[float, float]:
    return {time: value * factor for time, value in zip(values.times, values.values, strict=True)}


def _last(values: Mapping[float, float]) -> float | None:
    return values[max(values)] if values else None
