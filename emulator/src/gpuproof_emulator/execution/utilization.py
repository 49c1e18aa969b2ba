"""Utilization of instances, which SageMaker publishes in CloudWatch for every job and endpoint.

The values are those of the real processes: CPU and memory from `/proc`, GPUs from NVML. As on SageMaker, CPUUtilization,
GPUUtilization and GPUMemoryUtilization are sums over the instance's cores and GPUs: 0 to 400 for four of them.
There is one datapoint for each minute of the clock in which the instance ran, with the minute's beginning as its time. It is sent
when the minute is over, or when the instance ends, before the job's status changes: jobs of a few seconds have one datapoint.

Source: https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-cloudwatch.html#cloudwatch-metrics-jobs
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuproof.gpu.nvml import GpuReading
from gpuproof.gpu.sampler import Sampler
from gpuproof.gpu.telemetry import NvmlState, Sample
from gpuproof_emulator.execution.host import Host

if TYPE_CHECKING:
    from gpuproof.catalogue import Catalogue, Instance

JOB_NAMESPACE = "/aws/sagemaker/{word}Jobs"
ENDPOINT_NAMESPACE = "/aws/sagemaker/Endpoints"
_MINUTE_S = 60
_GIB = 1 << 30


@dataclass(frozen=True)
class Series:
    """Where the metrics of an instance belong in CloudWatch.

    Args:
        cloudwatch: a CloudWatch client for the region.
        namespace: such as `/aws/sagemaker/TrainingJobs`.
        dimensions: values by name.
    """

    cloudwatch: Any
    namespace: str
    dimensions: Mapping[str, str]

    @classmethod
    def of_job(cls, cloudwatch: Any, word: str, job: str, host: str) -> Series:
        """Those of one host of a job.

        Args:
            word: `Training`, `Processing` or `Transform`.
            host: `algo-1`; of a batch transform, the id of its instance.
        """
        return cls(cloudwatch, JOB_NAMESPACE.format(word=word), {"Host": f"{job}/{host}"})

    @classmethod
    def of_variant(cls, cloudwatch: Any, endpoint: str, variant: str) -> Series:
        """Those of the instances of an endpoint's variant."""
        return cls(cloudwatch, ENDPOINT_NAMESPACE, {"EndpointName": endpoint, "VariantName": variant})

    def put(self, moment: float, values: Mapping[str, float]) -> None:
        """Send a datapoint for each metric, in percent."""
        dimensions = [{"Name": name, "Value": value} for name, value in self.dimensions.items()]
        data = [
            {
                "MetricName": name,
                "Dimensions": dimensions,
                "Timestamp": moment,
                "Value": value,
                "Unit": "Percent",
            }
            for name, value in values.items()
        ]
        from botocore.exceptions import BotoCoreError, ClientError  # loads slowly

        # The emulator may be shutting down; metrics that are missing fail no job, as on SageMaker.
        with contextlib.suppress(BotoCoreError, ClientError):
            self.cloudwatch.put_metric_data(Namespace=self.namespace, MetricData=data)


class InstanceMonitor:
    """Measures one instance from `start()` to `stop()`, and publishes its utilization.

    Args:
        series: where it is published.
        host: the instance, whose container runs.
        instance_type: such as `ml.g5.xlarge`. Types without GPUs have no GPU metrics.
        disk: bytes of the instance's disk; None to publish no DiskUtilization, as for batch transforms.
        clock: returns seconds since the epoch.
    """

    def __init__(
        self,
        series: Series,
        host: Host,
        instance_type: str,
        disk: int | None = None,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._series = series
        self._folder = host.folder
        self._disk = disk
        self._machine = _instance(instance_type)
        self._clock = clock
        self._minute = _Minute(self._now())
        self._lock = threading.Lock()
        self._sampler = Sampler(host.pid or 0, self._add, open_dcgm=lambda: None)

    def start(self) -> None:
        """Start measuring, in a thread."""
        self._sampler.start()

    def stop(self) -> None:
        """End measuring, and publish the minute that has begun; may be called again."""
        self._sampler.stop()
        with self._lock:
            self._publish()

    def _add(self, sample: Sample) -> None:
        if sample.tree is None:
            return  # the container has ended
        with self._lock:
            if self._now() != self._minute.number:
                self._publish()
            self._minute.add("CPUUtilization", 100 * sample.cpu.cores if sample.cpu else None, sample.dt)
            if self._machine is not None and self._machine.memory:
                self._minute.raise_to(
                    "MemoryUtilization", min(100.0, 100 * sample.tree.rss / self._machine.memory)
                )
            gpus = sample.gpus[: self._gpu_count]
            utilization = _sum(_own_utilization(gpu, sample.tree.pids) for gpu in gpus)
            memory = _sum(_own_memory(gpu, sample.tree.pids) for gpu in gpus)
            self._minute.add("GPUUtilization", utilization, sample.dt)
            if memory is not None:
                self._minute.raise_to("GPUMemoryUtilization", memory)
            self._minute.samples += 1

    @property
    def _gpu_count(self) -> int:
        return self._machine.gpu_count if self._machine is not None else 0

    def _now(self) -> int:
        """The number of the present minute."""
        return int(self._clock()) // _MINUTE_S

    def _publish(self) -> None:
        minute, self._minute = self._minute, _Minute(self._now())
        if not minute.samples:
            return
        values = dict(minute.values())
        if self._gpu_count and self._sampler.telemetry().nvml is NvmlState.MISSING:
            # This machine has no GPUs: the job used none of those that the instance type would have.
            values |= {"GPUUtilization": 0.0, "GPUMemoryUtilization": 0.0}
        if self._disk:
            values["DiskUtilization"] = min(100.0, 100 * _size(self._folder) / self._disk)
        self._series.put(minute.number * _MINUTE_S, values)


class _Minute:
    """The measurements of one minute: means over time, and largest values."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.samples = 0
        self._sums: dict[str, tuple[float, float]] = {}
        self._largest: dict[str, float] = {}

    def add(self, metric: str, value: float | None, seconds: float) -> None:
        """Add a value that lasted for some seconds; the first sample's 0 s count where there is no other."""
        if value is None:
            return
        total, weight = self._sums.get(metric, (0.0, 0.0))
        seconds = max(seconds, 1e-6)
        self._sums[metric] = (total + seconds * value, weight + seconds)

    def raise_to(self, metric: str, value: float) -> None:
        """Keep the largest value."""
        self._largest[metric] = max(value, self._largest.get(metric, 0.0))

    def values(self) -> Iterator[tuple[str, float]]:
        """Name and value of each metric."""
        for metric, (total, weight) in self._sums.items():
            yield metric, round(total / weight, 6)  # a mean of equal values is that value
        yield from self._largest.items()


def volume_bytes(gib: int | None, instance_type: str) -> int | None:
    """The size of an instance's disk: its volume, or the local disk of a type that has one; None if unknown.

    Args:
        gib: `VolumeSizeInGB` of the request.
    """
    machine = _instance(instance_type)
    return (machine.local_disk if machine is not None else 0) or (gib or 0) * _GIB or None


def _own_utilization(gpu: GpuReading, pids: frozenset[int]) -> float | None:
    """Percent of the GPU that the container used; others may use this machine's GPUs, too."""
    listed = {pid for pid, _ in gpu.processes or ()}
    if listed and not listed & pids:
        return 0.0
    if listed - pids and gpu.process_utilization:
        return min(100.0, sum(share for pid, share in gpu.process_utilization if pid in pids))
    return gpu.utilization


def _own_memory(gpu: GpuReading, pids: frozenset[int]) -> float | None:
    """Percent of the GPU's memory that the container used."""
    listed = dict(gpu.processes or ())
    if listed and not listed.keys() & pids:
        return 0.0
    used = gpu.memory_used
    if listed.keys() - pids:
        used = sum(memory or 0 for pid, memory in listed.items() if pid in pids)
    return 100 * used / gpu.memory_total if used is not None and gpu.memory_total else None


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _size(folder: Path) -> int:
    """Bytes of the files in a folder, some of which may be deleted meanwhile."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(f"{place}/{name}").st_size
            except OSError:
                continue
    return total


def _instance(name: str) -> Instance | None:
    return _catalogue().instance(name)


@functools.cache
def _catalogue() -> Catalogue:
    from gpuproof.catalogue import Catalogue  # reads files, so only on first use
    from gpuproof.catalogue.tables import Tables

    return Catalogue(Tables())
