"""Snapshots of runs with any number of hosts and GPUs, for tests of what shows them."""

from typing import Any

from gpuproof.app.live_view.snapshot import GpuView, HostView, Snapshot

GIB = 2**30


def gpu(index: int = 0, busy: float | None = 90, **more: Any) -> GpuView:
    values: dict[str, Any] = {"memory_used": 20 * GIB, "memory_total": 24 * GIB, **more}
    return GpuView(index, utilization=busy, utilization_history=(10, 50, busy), **values)


def job(hosts: int = 1, gpus: int = 1, **more: Any) -> Snapshot:
    found = tuple(
        HostView(f"algo-{number + 1}", tuple(gpu(index) for index in range(gpus)), cores=3.25, rss=GIB)
        for number in range(hosts)
    )
    values = {"backend": "ec2", "status": "InProgress", "secondary_status": "Training", "seconds": 754.0}
    return Snapshot("run", "train-1", hosts=found, **{**values, **more})
