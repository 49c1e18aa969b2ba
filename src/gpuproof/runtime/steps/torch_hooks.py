"""Hooks of PyTorch: which functions are replaced when a script imports torch."""

from __future__ import annotations

from types import ModuleType

from gpuproof.runtime.steps import torch_collectives, torch_compute, torch_loaders, torch_transfers
from gpuproof.runtime.steps.location import add_library
from gpuproof.runtime.steps.recorder import Recorder
from gpuproof.runtime.steps.torch_loop import TorchLoop


def install(torch: ModuleType, recorder: Recorder) -> None:
    """Time the loaders, forward and backward passes, optimizers, copies and collectives of this process."""
    add_library(torch.__file__)
    loop = TorchLoop(torch, recorder)
    torch_compute.install(torch, loop)
    torch_loaders.install(torch, loop)
    torch_transfers.install(torch, loop)
    if torch.distributed.is_available():
        torch_collectives.install(torch, loop)
