# pyright: reportPrivateUsage=false, reportUnknownLambdaType=false, reportAttributeAccessIssue=false
"""A process group that exists of this process alone, and answers as rank 0 of the ranks that there would be."""

from __future__ import annotations

import sys
from math import prod
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed

from gpuproof.trace.pytorch.recorder import Recorder

_SENT_BY_REDUCTION = (
    "all_reduce",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "all_reduce_coalesced",
)
_SENT_BY_COPY = ("all_gather", "all_gather_into_tensor", "broadcast", "all_to_all", "all_to_all_single")
_NO_ACTION = (
    *("barrier", "monitored_barrier", "destroy_process_group", "broadcast_object_list", "set_debug_level"),
    *("send", "recv", "isend", "irecv", "gather", "scatter", "send_object_list", "recv_object_list"),
)


class _Work:
    """A collective that is done."""

    def wait(self, *_: Any) -> bool:
        return True

    def is_completed(self) -> bool:
        return True


def ring_bytes(size: float, ranks: int) -> float:
    """Bytes that each rank sends in a ring all-reduce of `size` bytes: 2 (n - 1) / n of them.

    Source: Patarasuk and Yuan, Bandwidth optimal all-reduce algorithms for clusters of workstations, 2009.
    """
    return 2.0 * size * (ranks - 1) / ranks


def emulate_process_group(recorder: Recorder, world: int) -> None:
    """Let `torch.distributed` answer for a group of ranks, of which this is the first.

    Args:
        recorder: takes the bytes that collectives send.
        world: number of ranks.
    """
    state = SimpleNamespace(initialized=False)

    def initialize(*_: Any, **__: Any) -> None:
        state.initialized = True

    def collective(factor: float, position: int) -> Any:
        def call(*args: Any, async_op: bool = False, **kwargs: Any) -> Any:
            tensors = [value for value in (*args, *kwargs.values()) if isinstance(value, torch.Tensor)]
            if tensors:
                tensor = tensors[min(position, len(tensors) - 1)]
                size = tensor.numel() * tensor.element_size()
                recorder.send(factor * ring_bytes(size, world) / 2)
            return _Work() if async_op else None

        return call

    def gather_objects(objects: Any, own: Any, *_: Any, **__: Any) -> None:
        objects[:] = [own] * len(objects)

    def collect_objects(own: Any, objects: Any = None, *_: Any, **__: Any) -> None:
        if objects is not None:
            objects[:] = [own] * len(objects)

    def scatter_objects(output: Any, objects: Any = None, *_: Any, **__: Any) -> None:
        if objects:
            output[0] = objects[0]

    answers: dict[str, Any] = {
        "is_available": lambda: True,
        "is_initialized": lambda: state.initialized,
        "is_nccl_available": lambda: True,
        "is_torchelastic_launched": lambda: world > 1,
        "init_process_group": initialize,
        "get_rank": lambda *_, **__: 0,
        "get_node_local_rank": lambda *_, **__: 0,
        "get_group_rank": lambda *_, **__: 0,
        "get_global_rank": lambda _, rank: rank,
        "get_world_size": lambda *_, **__: world,
        "get_process_group_ranks": lambda *_, **__: list(range(world)),
        "get_backend": lambda *_, **__: "nccl",
        "new_group": lambda *_, **__: _Group(),
        "all_gather_object": gather_objects,
        "gather_object": collect_objects,
        "scatter_object_list": scatter_objects,
        "init_device_mesh": lambda _, shape, **options: _Mesh(tuple(shape), **options),
        **{name: lambda *_, **__: None for name in _NO_ACTION},
        **{name: collective(2.0, 0) for name in _SENT_BY_REDUCTION},
        **{name: collective(1.0, 0) for name in _SENT_BY_COPY},
    }
    import torch.distributed.device_mesh as meshes

    for module in (torch.distributed, torch.distributed.distributed_c10d, meshes):
        for name, answer in answers.items():
            if hasattr(module, name):
                setattr(module, name, answer)
    _replace_spawn()


class _Group:
    """A group of ranks, of which this process is the first."""

    def rank(self) -> int:
        return 0

    def size(self) -> int:
        return torch.distributed.get_world_size()


class _Mesh:
    """A device mesh, of which this process is the first rank.

    Args:
        shape: ranks in each dimension.
        mesh_dim_names: of the dimensions.
    """

    device_type = "cuda"

    def __init__(self, shape: tuple[int, ...], mesh_dim_names: Any = None, **_: Any) -> None:
        self.shape, self.mesh_dim_names = shape, mesh_dim_names
        self.ndim = len(shape)

    def __getitem__(self, names: Any) -> _Mesh:
        wanted = (names,) if isinstance(names, str) else tuple(names)
        known: list[Any] = list(self.mesh_dim_names or ())
        return _Mesh(tuple(self.shape[known.index(name)] for name in wanted), wanted)

    def size(self, mesh_dim: Any = None) -> int:
        if mesh_dim is None:
            return prod(self.shape)
        return self[mesh_dim].shape[0] if isinstance(mesh_dim, str) else self.shape[mesh_dim]

    def get_group(self, *_: Any) -> _Group:
        return _Group()

    def get_rank(self) -> int:
        return 0

    def get_local_rank(self, *_: Any) -> int:
        return 0

    def get_coordinate(self) -> list[int]:
        return [0] * self.ndim


def _replace_spawn() -> None:
    """Let `torch.multiprocessing.spawn` call the function as the first process, in this one."""
    import torch.multiprocessing  # its attribute `spawn` is the function, not the module

    def spawn(fn: Any, args: Any = (), *_: Any, **__: Any) -> Any:
        fn(0, *args)
        return SimpleNamespace(join=lambda *_, **__: True, processes=[])

    for module in (torch.multiprocessing, sys.modules["torch.multiprocessing.spawn"]):
        for name in ("spawn", "start_processes"):
            setattr(module, name, spawn)
