"""TensorFlow workers under torchrun and MPI, which start several processes on a host."""

from __future__ import annotations

from typing import Any

from gpuproof.runtime.contract import host_index, hosts
from gpuproof.runtime.device import GpuRequired
from gpuproof.runtime.distribution.hosts import host_address
from gpuproof.runtime.ranks import ranks
from gpuproof.util.tf_config import WORKER_PORT, TfConfig, worker_config


def all_workers() -> TfConfig:
    """`TF_CONFIG` with all processes of the job as workers.

    Raises:
        ValueError: the launcher's ranks are not evenly distributed over the job's hosts.
    """
    found, everyone = ranks(), hosts() or ("localhost",)
    if found is None:
        return worker_config(everyone, host_index(), host_address)
    if found.size != len(everyone) * found.local_size:
        raise ValueError(
            f"strategy(): {found.size} processes are not {found.local_size} on each of {len(everyone)} hosts, so that "
            "their addresses are unknown: start as many on each host, or set TF_CONFIG"
        )
    addresses = [
        host_address(host, WORKER_PORT + local) for host in everyone for local in range(found.local_size)
    ]
    return worker_config(addresses, found.rank, lambda address, _: address)


def use_own_gpu(tensorflow: Any) -> None:
    """With several processes on this host, show TensorFlow only the GPU of this one.

    Raises:
        GpuRequired: the host has more processes than GPUs.
    """
    found = ranks()
    gpus = tensorflow.config.get_visible_devices("GPU")
    # A launcher may show each process only its own GPU.
    if found is None or found.local_size == 1 or len(gpus) < 2:
        return
    if found.local_rank >= len(gpus):
        raise GpuRequired(
            f"process {found.local_rank + 1} of this host has no GPU: the host has {len(gpus)}.",
            f"Start one process per GPU: processes_per_host: {len(gpus)}",
            "too-many-processes",
        )
    tensorflow.config.set_visible_devices(gpus[found.local_rank], "GPU")
