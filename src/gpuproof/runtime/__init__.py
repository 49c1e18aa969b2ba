"""Library for the user's script: provides a GPU or a clear error, never a silent fallback to the CPU.

Requires only the standard library; works without any framework installed, and in any container, because the agent
contains it. `import gpuproof.runtime as rt`, then `rt.setup()`, `rt.device()`, `rt.strategy()` or `rt.distributed()`, `rt.save(model)`.
"""

from __future__ import annotations

from gpuproof.runtime.accumulation import Accumulation, accumulation
from gpuproof.runtime.checkpoint.checkpoint import Checkpoint, CheckpointMismatch, checkpoint
from gpuproof.runtime.collectives import gather, gather_object, print, reduce  # noqa: A004 - rt.print
from gpuproof.runtime.contract import NoSuchChannel, hyperparameters, is_first_rank, paths
from gpuproof.runtime.device import GpuRequired, device
from gpuproof.runtime.distributed import Distributed, distributed
from gpuproof.runtime.imported_frameworks import NoFramework
from gpuproof.runtime.keras_multi_host import KerasFitUnsupported
from gpuproof.runtime.models.save_load import load, save
from gpuproof.runtime.setup import Setup, setup
from gpuproof.runtime.strategy import global_batch_size, strategy

__all__ = [
    "Accumulation",
    "Checkpoint",
    "CheckpointMismatch",
    "Distributed",
    "GpuRequired",
    "KerasFitUnsupported",
    "NoFramework",
    "NoSuchChannel",
    "Setup",
    "accumulation",
    "checkpoint",
    "device",
    "distributed",
    "gather",
    "gather_object",
    "global_batch_size",
    "hyperparameters",
    "is_first_rank",
    "load",
    "paths",
    "print",
    "reduce",
    "save",
    "setup",
    "strategy",
]


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
