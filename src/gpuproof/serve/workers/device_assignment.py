"""Which predictor computes where, and what it is started with for that: the GPUs that are visible, shared out before
anything is imported, threads and huge pages. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpuproof.serve.model.interface import Device
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
class Placement:
    """Where one predictor computes.

    Args:
        device: as the predictor sees it.
        environment: variables that it is started with.
    """

    device: Device
    environment: Mapping[str, str]


def placements(settings: Settings, environ: Mapping[str, str], gpus: int, cpus: int) -> list[Placement]:
    """One placement for each predictor that shall run.

    Args:
        environ: the server's own environment.
        gpus: how many GPUs NVML counts.
        cpus: how many cores this process may use.
    """
    visible = visible_gpus(environ, gpus)
    count = settings.workers or max(1, len(visible) * settings.workers_per_gpu)
    threads = _threads(settings, environ, cpus, count)
    if not visible:
        environment = {**threads, **_huge_pages(environ)}
        return [Placement(Device(), environment) for _ in range(count)]
    # What is named here is counted as NVML counts, by bus; CUDA's own first GPU is the fastest one.
    order = {} if VISIBLE in environ else {_ORDER: "PCI_BUS_ID"}
    found: list[Placement] = []
    for number in range(count):
        name = visible[number % len(visible)]
        device = Device("cuda", 0, int(name) if name.isdigit() else None)
        found.append(Placement(device, {**threads, **order, VISIBLE: name}))
    return found


def visible_gpus(environ: Mapping[str, str], gpus: int) -> list[str]:
    """The GPUs that may be used, as `CUDA_VISIBLE_DEVICES` names them; CUDA stops reading at the first wrong one."""
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
    """Each predictor its share of the cores: as many threads as cores in each of them would fight for them."""
    if settings.threads is not None:
        return {"OMP_NUM_THREADS": str(settings.threads)}
    share = str(max(1, cpus // count))
    return {name: share for name in _THREADS if name not in environ}


def _huge_pages(environ: Mapping[str, str]) -> dict[str, str]:
    """Weights and activations on huge pages, where the kernel gives them to who asks (`madvise`): fewer misses of the
    TLB. Since glibc 2.35; other C libraries do not read the variable.

    Source: https://sourceware.org/glibc/manual/latest/html_node/Memory-Allocation-Tunables.html.
    """
    tunables = environ.get(_TUNABLES, "")
    if _HUGE_PAGES in tunables:
        return {}
    return {_TUNABLES: ":".join(filter(None, (tunables, f"{_HUGE_PAGES}=1")))}
