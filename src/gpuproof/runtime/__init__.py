"""Library for the user's script: provides a GPU or a clear error, never a silent fallback to the CPU.

Requires only the standard library; works without any framework installed, and in any container, because the agent
contains it. `import gpuproof.runtime as rt`, then `rt.setup()`, `rt.device()`, `rt.strategy()` or `rt.distributed()`, `rt.save(model)`.
"""

from gpuproof.runtime.checkpoint.checkpoint import Checkpoint, CheckpointMismatch, checkpoint
from gpuproof.runtime.contract import NoSuchChannel, hyperparameters, is_first_rank, paths
from gpuproof.runtime.device import GpuRequired, device
from gpuproof.runtime.distributed import Distributed, distributed
from gpuproof.runtime.imported_frameworks import NoFramework
from gpuproof.runtime.keras_multi_host import KerasFitUnsupported
from gpuproof.runtime.models.save_load import load, save
from gpuproof.runtime.setup import Setup, setup
from gpuproof.runtime.strategy import global_batch_size, strategy

__all__ = [
    "Checkpoint",
    "CheckpointMismatch",
    "Distributed",
    "GpuRequired",
    "KerasFitUnsupported",
    "NoFramework",
    "NoSuchChannel",
    "Setup",
    "checkpoint",
    "device",
    "distributed",
    "global_batch_size",
    "hyperparameters",
    "is_first_rank",
    "load",
    "paths",
    "save",
    "setup",
    "strategy",
]
