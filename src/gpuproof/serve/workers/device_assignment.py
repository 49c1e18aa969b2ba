"""Assigns workers to devices by environment variables: visible GPUs, number of threads, huge pages. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpuproof.serve.interface import Device
from gpuproof.serve.settings import Settings

VISIBLE = "CUDA_VISIBLE_DEVICES"
_ORDER = "CUDA_DEVICE_ORDER"
_THREADS = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "TF_NUM_INTRAOP_THREADS",
)
_TUNABLES = "GLIBC_TUNABLES"
_HUGE_PAGES = "glibc.malloc.hugetlb"


@dataclass(frozen=True)
class DeviceAssignment:
    """The device of one worker.

    Args:
        device: as the worker sees it.
    """

    device: Device
    environment: Mapping[str, str]


def assign_devices(
    settings: Settings, environ: Mapping[str, str], gpus: int, cpus: int
) -> list[DeviceAssignment]:
    """One assignment for each worker to start.

    Args:
        gpus: number of GPUs in NVML.
        cpus: number of cores that this process may use.
    """
    visible = visible_gpus(environ, gpus)
    count = settings.workers or max(1, len(visible) * settings.workers_per_gpu)
    threads = _threads(settings, environ, cpus, count)
    if not visible:
        environment = {**threads, **_huge_pages(environ)}
        return [DeviceAssignment(Device(), environment) for _ in range(count)]
    # Number GPUs by PCI bus as NVML does; by default, CUDA numbers the fastest GPU first.
    order = {} if VISIBLE in environ else {_ORDER: "PCI_BUS_ID"}
    found: list[DeviceAssignment] = []
    for number in range(count):
        name = visible[number % len(visible)]
        device = Device("cuda", 0, int(name) if name.isdigit() else None)
        found.append(DeviceAssignment(device, {**threads, **order, VISIBLE: name}))
    return found


def visible_gpus(environ: Mapping[str, str], gpus: int) -> list[str]:
    """The usable GPUs, as in `CUDA_VISIBLE_DEVICES`. Like CUDA, ignores everything from the first invalid entry."""
    wanted = environ.get(VISIBLE)
    if wanted is None:
        return [str(index) for index in range(gpus)]
    found: list[str] = []
    for word in (word.strip() for word in wanted.split(",")):
        if gpus == 0 or not word or (word.lstrip("-").isdigit() and not 0 <= int(word) < gpus):
            break
        found.append(word)
    return found


def _threads(settings: Settings, environ: Mapping[str, str], cpus: int, count: int) -> dict[str, str]:
    """Divide the cores among the workers: with one thread per core in every worker, they would compete for cores."""
    if settings.threads is not None:
        return {"OMP_NUM_THREADS": str(settings.threads)}
    share = str(max(1, cpus // count))
    return {name: share for name in _THREADS if name not in environ}


def _huge_pages(environ: Mapping[str, str]) -> dict[str, str]:
    """Put weights and activations on huge pages if the kernel supports `madvise`, to reduce TLB misses.

    Requires glibc 2.35; other C libraries ignore the variable.

    Source: https://sourceware.org/glibc/manual/latest/html_node/Memory-Allocation-Tunables.html.
    """
    tunables = environ.get(_TUNABLES, "")
    if _HUGE_PAGES in tunables:
        return {}
    return {_TUNABLES: ":".join(filter(None, (tunables, f"{_HUGE_PAGES}=1")))}
