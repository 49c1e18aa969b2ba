"""Times collectives of PyTorch: calls that wait for other ranks, and what DDP and FSDP wait for after a backward pass."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from gpuproof.runtime.steps.torch_loop import TorchLoop
from gpuproof.runtime.steps.torch_transfers import replace_timed

_COLLECTIVES = (
    *("all_reduce", "all_gather", "all_gather_into_tensor", "_all_gather_base", "all_gather_object"),
    *("broadcast", "broadcast_object_list", "reduce", "reduce_scatter", "reduce_scatter_tensor"),
    *("_reduce_scatter_base", "all_to_all", "all_to_all_single", "gather", "gather_object", "scatter"),
    *("scatter_object_list", "barrier", "monitored_barrier", "send", "recv"),
)


def install(torch: ModuleType, loop: TorchLoop) -> None:
    """Replace the functions of `torch.distributed`, and watch the end of backward passes while it is in use."""
    distributed: Any = torch.distributed
    for name in _COLLECTIVES:
        replace_timed(loop.recorder, distributed, name, "communication", f"{name}()")
    # Broadcasts the buffers of rank 0 before each forward pass.
    replace_timed(
        loop.recorder,
        torch.nn.parallel.DistributedDataParallel,
        "_sync_buffers",
        "communication",
        "DistributedDataParallel",
    )
    loop.before_backward.append(_at_the_end_of_a_backward_pass(torch, loop))


def _at_the_end_of_a_backward_pass(torch: Any, loop: TorchLoop) -> Any:
    """What DDP and FSDP wait for when all gradients are computed is communication.

    They queue a callback of the autograd engine for it. One that is queued before theirs, at the first gradient, runs before
    theirs.
    """
    recorder, distributed = loop.recorder, torch.distributed
    engine = torch.autograd.Variable._execution_engine

    def wait_begins() -> None:
        recorder.switch("backward", "communication")

    def queue(gradient: Any) -> None:
        recorder.guard("backward", engine.queue_callback, wait_begins)

    def prepare(tensors: Any) -> None:
        if not distributed.is_initialized() or distributed.get_world_size() < 2:
            return
        recorder.rank = distributed.get_rank()
        first = tensors if isinstance(tensors, torch.Tensor) else tensors[0]
        if first.requires_grad and first.grad_fn is not None:
            first.register_hook(queue)

    return prepare
