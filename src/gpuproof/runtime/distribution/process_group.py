"""`distributed()`: joins PyTorch's process group and describes this process's role in it."""

from __future__ import annotations

import atexit
import os
import sys
import weakref
from dataclasses import dataclass
from datetime import timedelta
from types import TracebackType
from typing import Any

from gpuproof.runtime.contract import host_index, hosts
from gpuproof.runtime.device import device
from gpuproof.runtime.distribution.collectives import gather, reduce
from gpuproof.runtime.distribution.hosts import TORCH_PORT, host_address, network_interface
from gpuproof.runtime.imported_frameworks import TORCH, load_module
from gpuproof.runtime.ranks import local_rank, rank_and_size
from gpuproof.util.log import log_once, print_at_once

_active: list[Distributed] = []
_wrapped: weakref.WeakSet[Any] = weakref.WeakSet()
"""Models in `DistributedDataParallel` that `Distributed.wrap` returned."""


@dataclass(frozen=True)
class Distributed:
    """This process in the process group; works the same for a single process.

    Args:
        rank: index of this process, from 0.
        world_size: number of processes.
        local_rank: index of this process on its host.
        backend: `nccl` or `gloo`; `None` for a single process.
        device: the `torch.device` of this process.
    """

    rank: int
    world_size: int
    local_rank: int
    backend: str | None
    device: Any

    @property
    def is_first(self) -> bool:
        """Whether this is the process that prints and saves."""
        return self.rank == 0

    def sampler(self, dataset: Any, shuffle: bool = True, seed: int = 0, drop_last: bool = False) -> Any:
        """Sampler of this process's share of a dataset; call `set_epoch(epoch)` before each epoch to reshuffle."""
        from torch.utils.data.distributed import DistributedSampler  # torch may not be installed

        return DistributedSampler(dataset, self.world_size, self.rank, shuffle, seed, drop_last)

    def wrap(self, model: Any, **options: Any) -> Any:
        """Move the model to this process's device, and wrap it in `DistributedDataParallel` for several processes.

        Args:
            options: for `DistributedDataParallel`.
        """
        model = model.to(self.device)
        if self.world_size == 1:
            return model
        from torch.nn.parallel import DistributedDataParallel  # torch may not be installed

        devices = [self.device] if self.device.type == "cuda" else None
        wrapped = DistributedDataParallel(model, device_ids=devices, **options)
        _wrapped.add(wrapped)
        return wrapped

    def gather(self, data: Any) -> Any:
        """Concatenate the tensors of all processes; see `gpuproof.runtime.gather`."""
        return gather(data)

    def reduce(self, data: Any, reduction: str = "sum", scale: float = 1.0) -> Any:
        """Combine the tensors of all processes; see `gpuproof.runtime.reduce`."""
        return reduce(data, reduction, scale)

    def print(self, *values: object, **options: Any) -> None:
        """Print on the first rank only."""
        if self.is_first:
            print_at_once(values, **options)

    def wait(self) -> None:
        """Wait for all other processes."""
        if self.world_size > 1:
            load_module("torch.distributed").barrier()

    def close(self) -> None:
        """Leave the process group; called automatically at exit. A second call has no effect."""
        if self in _active:
            _active.remove(self)
            _destroy_process_group()

    def __enter__(self) -> Distributed:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def distributed(allow_cpu: bool = False, timeout: float = 1800.0) -> Distributed:
    """Join the launcher's process group, on this process's own GPU.

    Rank, world size and local rank come from torchrun or MPI; without them each of the job's hosts (`SM_HOSTS`) is one
    process; without either there is a single process, for which everything works, too. The backend is `nccl` with GPUs,
    otherwise `gloo`. A group that the script has created is used as it is. Calling it again returns the same object.

    Args:
        allow_cpu: use the CPU if no GPU is usable, with one message on standard error.
        timeout: seconds to wait for other processes.

    Raises:
        GpuRequired: no GPU is usable, or this host has fewer GPUs than processes.
    """
    if _active:
        return _active[0]
    torch = load_module(TORCH)
    rank, world_size, local_rank = _read_ranks()
    chosen = device(TORCH, allow_cpu)
    if chosen.type == "cuda":
        torch.cuda.set_device(chosen)
        _warn_idle_gpus(torch.cuda.device_count(), world_size)
    backend = None
    if world_size > 1:
        group = load_module("torch.distributed")
        if group.is_initialized():
            return Distributed(
                group.get_rank(), group.get_world_size(), local_rank, group.get_backend(), chosen
            )
        backend = "nccl" if chosen.type == "cuda" else "gloo"
        _set_interface(backend)
        # Its functions have the default group as a default argument, which would keep the group alive after its end.
        load_module("torch.distributed.nn.functional")
        group.init_process_group(
            backend,
            init_method=_init_method(),
            rank=rank,
            world_size=world_size,
            timeout=timedelta(seconds=timeout),
        )
        atexit.register(_leave_at_exit)
    _active.append(Distributed(rank, world_size, local_rank, backend, chosen))
    return _active[0]


def _read_ranks() -> tuple[int, int, int]:
    """Read rank, world size and local rank."""
    found = rank_and_size()
    if found is not None:
        return *found, local_rank() or 0
    return host_index(), max(1, len(hosts())), 0


def _init_method() -> str:
    if "MASTER_ADDR" in os.environ and "MASTER_PORT" in os.environ:
        return "env://"
    # mpirun without a job has no hosts; then all processes are on this machine.
    return f"tcp://{host_address((hosts() or ('127.0.0.1',))[0], TORCH_PORT)}"


def _set_interface(backend: str) -> None:
    interface = network_interface()
    if interface is not None and len(hosts()) > 1:
        os.environ.setdefault(f"{backend.upper()}_SOCKET_IFNAME", interface)


def _warn_idle_gpus(gpus: int, world_size: int) -> None:
    if gpus > 1 and local_rank() is None:
        processes = "this process is the only one on its host" if world_size > 1 else "there is one process"
        log_once(
            f"{gpus} GPUs are visible, but {processes}: {gpus - 1} will be idle. "
            f"Start one process per GPU: 'distribution: torchrun' in the job, or torchrun --nproc-per-node {gpus} SCRIPT"
        )


def _leave_at_exit() -> None:
    """Leave the process group, and end the threads of Gloo.

    Models keep the group alive after it is destroyed, and its threads release Python objects when they end: if the
    interpreter is being finalized then, this aborts the process ("terminate called without an active exception").
    """
    for model in list(_wrapped):
        # In this order: only the last reference from Python releases the GIL, which the threads need in order to end.
        for name in ("logger", "reducer", "process_group"):
            setattr(model, name, None)
    _destroy_process_group()


def _destroy_process_group() -> None:
    torch: Any = sys.modules.get("torch.distributed")
    if torch is not None and torch.is_initialized():
        torch.destroy_process_group()
