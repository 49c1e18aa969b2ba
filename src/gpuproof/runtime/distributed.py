"""`distributed()`: PyTorch's process group, and what each process needs to know of it."""

from __future__ import annotations

import atexit
import os
import sys
from dataclasses import dataclass
from datetime import timedelta
from types import TracebackType
from typing import Any

from gpuproof.runtime.contract import host_number, hosts
from gpuproof.runtime.device import device
from gpuproof.runtime.hosts import TORCH_PORT, network_interface
from gpuproof.runtime.imported_frameworks import TORCH, load
from gpuproof.util.log import say_once

_made: list[Distributed] = []


@dataclass(frozen=True)
class Distributed:
    """This process among all that train together; one alone works just so.

    Args:
        rank: this process's number, from 0.
        world_size: how many there are.
        local_rank: its number on this host.
        backend: `nccl` or `gloo`; `None` where there is one process.
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
        """This process's share of a dataset; call its `set_epoch(epoch)` before each epoch to shuffle anew."""
        from torch.utils.data.distributed import DistributedSampler  # torch may not be installed

        return DistributedSampler(dataset, self.world_size, self.rank, shuffle, seed, drop_last)

    def wrap(self, model: Any, **options: Any) -> Any:
        """The model on this process's device, in `DistributedDataParallel` where there are several processes.

        Args:
            options: for `DistributedDataParallel`.
        """
        model = model.to(self.device)
        if self.world_size == 1:
            return model
        from torch.nn.parallel import DistributedDataParallel  # torch may not be installed

        devices = [self.device] if self.device.type == "cuda" else None
        return DistributedDataParallel(model, device_ids=devices, **options)

    def wait(self) -> None:
        """Wait for all other processes."""
        if self.world_size > 1:
            load("torch.distributed").barrier()

    def close(self) -> None:
        """Leave the process group; done at the process's end by itself. A second call does nothing."""
        if self in _made:
            _made.remove(self)
            _leave()

    def __enter__(self) -> Distributed:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def distributed(allow_cpu: bool = False, timeout: float = 1800.0) -> Distributed:
    """Join the process group that the launcher describes, on this process's own GPU.

    `RANK`, `WORLD_SIZE` and `LOCAL_RANK` come from torchrun; without them each of the job's hosts (`SM_HOSTS`) is one
    process; without either it is one process alone, for which everything works as well. The backend is `nccl` with
    GPUs, else `gloo`. A group that the script has made itself is used as it is. Calling it again gives the same object.

    Args:
        allow_cpu: do with the CPU where there is no usable GPU, and say so once.
        timeout: seconds after which waiting for another process is an error.

    Raises:
        GpuRequired: there is no usable GPU, or fewer than processes on this host.
    """
    if _made:
        return _made[0]
    torch = load(TORCH)
    rank, world_size, local_rank = _place()
    chosen = device(TORCH, allow_cpu)
    if chosen.type == "cuda":
        torch.cuda.set_device(chosen)
        _say_idle_gpus(torch.cuda.device_count(), world_size)
    backend = None
    if world_size > 1:
        group = load("torch.distributed")
        if group.is_initialized():
            return Distributed(
                group.get_rank(), group.get_world_size(), local_rank, group.get_backend(), chosen
            )
        backend = "nccl" if chosen.type == "cuda" else "gloo"
        _name_interface(backend)
        group.init_process_group(
            backend,
            init_method=_meeting_point(),
            rank=rank,
            world_size=world_size,
            timeout=timedelta(seconds=timeout),
        )
        atexit.register(_leave)
    _made.append(Distributed(rank, world_size, local_rank, backend, chosen))
    return _made[0]


def _place() -> tuple[int, int, int]:
    """Rank, world size and local rank."""
    if "RANK" in os.environ and "WORLD_SIZE" in os.environ:
        return int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), int(os.environ.get("LOCAL_RANK") or 0)
    return host_number(), max(1, len(hosts())), 0


def _meeting_point() -> str:
    if "MASTER_ADDR" in os.environ and "MASTER_PORT" in os.environ:
        return "env://"
    return f"tcp://{hosts()[0]}:{TORCH_PORT}"


def _name_interface(backend: str) -> None:
    interface = network_interface()
    if interface is not None and len(hosts()) > 1:
        os.environ.setdefault(f"{backend.upper()}_SOCKET_IFNAME", interface)


def _say_idle_gpus(gpus: int, world_size: int) -> None:
    if gpus > 1 and "LOCAL_RANK" not in os.environ:
        on_this_host = "this process is the only one on its host" if world_size > 1 else "this is one process"
        say_once(
            f"{gpus} GPUs are visible and {on_this_host}: {gpus - 1} will idle. "
            f"Start one for each: torchrun --nproc-per-node {gpus} SCRIPT"
        )


def _leave() -> None:
    torch: Any = sys.modules.get("torch.distributed")
    if torch is not None and torch.is_initialized():
        torch.destroy_process_group()
