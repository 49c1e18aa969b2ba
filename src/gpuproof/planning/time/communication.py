"""Seconds that collectives add to a step."""

from __future__ import annotations

from gpuproof.catalogue.model import Gpu
from gpuproof.planning.coefficients import Coefficients
from gpuproof.planning.time.hardware import pcie_bandwidth
from gpuproof.trace.document import CATEGORIES, Trace

_GRADIENT = CATEGORIES.index("gradient")
_PARAMETER = CATEGORIES.index("parameter")
_LAST_BUCKET = 25 << 20
"""Bytes of DistributedDataParallel's buckets (`bucket_cap_mb`): the last one is reduced when the backward pass is over."""


def exposed_communication(
    trace: Trace,
    gpu: Gpu,
    known: Coefficients,
    *,
    gpus: int,
    hosts: int,
    network_gbps: float | None,
    seconds: dict[str, float],
) -> float:
    """Seconds of collectives that computation does not hide, or by which it becomes slower.

    A ring moves (n - 1) / n of the data twice for all-reduce, once for all-gather and reduce-scatter. The slowest link of the ring
    counts: the network between hosts, else NVLink or PCIe.

    Args:
        trace: on one GPU.
        gpu: of the catalogue.
        known: coefficients.
        gpus: of each host.
        hosts: how many.
        network_gbps: sustained, of each host.
        seconds: of the GPU by phase.
    """
    world = gpus * hosts
    if world < 2:
        return 0.0
    bandwidth = _bandwidth(gpu, known, gpus, hosts, network_gbps)
    share = (world - 1) / world
    if trace.strategy == "fsdp":
        gathers_once = trace.sharding is not None and trace.sharding.keeps_gathered
        size = (2 if gathers_once else 3) * _bytes(trace, _PARAMETER)
        hidden = seconds.get("forward", 0.0) + seconds.get("backward", 0.0)
        last = known.time["fsdp_exposed"] * size * share / bandwidth
    else:
        size = 2 * _bytes(trace, _GRADIENT)
        hidden = seconds.get("backward", 0.0)
        last = min(2 * _LAST_BUCKET, size) * share / bandwidth
    total = size * share / bandwidth
    return max(last, total - known.time["overlap"] * hidden)


def _bandwidth(gpu: Gpu, known: Coefficients, gpus: int, hosts: int, network_gbps: float | None) -> float:
    """Bytes a second in each direction of the ring's slowest link."""
    links: list[float] = []
    if gpus > 1:
        nvlink = gpu.nvlink * 1e9 / 2 * known.time["nvlink_share"]
        # Without NVLink, data cross the host's memory, and the GPUs of a host share its links.
        links.append(nvlink or pcie_bandwidth(gpu) * known.time["pcie_share"])
    if hosts > 1:
        links.append((network_gbps or known.time["network_gbps"]) * 1e9 / 8 * known.time["network_share"])
    return min(links)


def _bytes(trace: Trace, category: int) -> float:
    """Of the first step's gradients or parameters, each tensor once."""
    if category == _PARAMETER:
        return float(trace.model_bytes)
    return trace.model_bytes * trace.trainable / max(1, trace.parameters)
