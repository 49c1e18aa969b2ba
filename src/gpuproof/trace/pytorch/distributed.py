# pyright: reportPrivateUsage=false, reportUnknownLambdaType=false, reportAttributeAccessIssue=false
"""A process group that exists of this process alone, and answers as rank 0 of the ranks that there would be."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed

from gpuproof.trace.pytorch.recorder import Recorder

_SENT_BY_REDUCTION = ("all_reduce", "reduce", "reduce_scatter", "reduce_scatter_tensor")
_SENT_BY_COPY = ("all_gather", "all_gather_into_tensor", "broadcast", "all_to_all", "all_to_all_single")
_NO_ACTION = (
    *("barrier", "monitored_barrier", "destroy_process_group", "broadcast_object_list", "all_gather_object"),
    *("send", "recv", "isend", "irecv", "gather", "scatter", "gather_object", "scatter_object_list"),
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
    environment = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": str(world), "LOCAL_WORLD_SIZE": str(world)}
    for name, value in {**environment, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}.items():
        if world > 1:
            os.environ.setdefault(name, value)

    def initialize(*_: Any, **__: Any) -> None:
        state.initialized = True

    def collective(factor: float, position: int) -> Any:
        def call(*args: Any, async_op: bool = False, **kwargs: Any) -> Any:
            tensors = [one for one in (*args, *kwargs.values()) if isinstance(one, torch.Tensor)]
            if tensors:
                tensor = tensors[min(position, len(tensors) - 1)]
                size = tensor.numel() * tensor.element_size()
                recorder.send(factor * ring_bytes(size, world) / 2)
            return _Work() if async_op else None

        return call

    answers: dict[str, Any] = {
        "is_available": lambda: True,
        "is_initialized": lambda: state.initialized,
        "is_nccl_available": lambda: True,
        "is_torchelastic_launched": lambda: world > 1,
        "init_process_group": initialize,
        "get_rank": lambda *_, **__: 0,
        "get_world_size": lambda *_, **__: world,
        "get_backend": lambda *_, **__: "nccl",
        "new_group": lambda *_, **__: None,
        **{name: lambda *_, **__: None for name in _NO_ACTION},
        **{name: collective(2.0, 0) for name in _SENT_BY_REDUCTION},
        **{name: collective(1.0, 0) for name in _SENT_BY_COPY},
    }
    for module in (torch.distributed, torch.distributed.distributed_c10d):
        for name, answer in answers.items():
            if hasattr(module, name):
                setattr(module, name, answer)
