"""Library for the user's script: provides a GPU or a clear error, never a silent fallback to the CPU.

Requires only the standard library; works without any framework installed, and in any container, because the agent
contains it. `import gpuproof.runtime as rt`, then `rt.setup()`, `rt.device()`, `rt.strategy()` or `rt.distributed()`, `rt.save(model)`.
`rt.watch()` proves what the GPUs did where something else than GPUproof starts the script, and `rt.callbacks` logs their utilization.
"""

from __future__ import annotations

from gpuproof.runtime import callbacks
from gpuproof.runtime.accumulation import Accumulation, accumulation
from gpuproof.runtime.checkpoint.checkpoint import Checkpoint, CheckpointMismatch, checkpoint
from gpuproof.runtime.checkpoint.save_request import checkpoint_requested
from gpuproof.runtime.contract import NoSuchChannel, hyperparameters, is_first_rank, paths
from gpuproof.runtime.device import GpuRequired, device
from gpuproof.runtime.distribution.collectives import gather, gather_object, print, reduce  # noqa: A004 - rt.print
from gpuproof.runtime.distribution.keras_multi_host import KerasFitUnsupported
from gpuproof.runtime.distribution.process_group import Distributed, distributed
from gpuproof.runtime.distribution.strategy import global_batch_size, strategy
from gpuproof.runtime.imported_frameworks import NoFramework
from gpuproof.runtime.models.save_load import load, save
from gpuproof.runtime.setup import Setup, setup
from gpuproof.runtime.throughput import log_throughput
from gpuproof.runtime.watch.watch import GpuUnused, Watch, watch

__all__ = [
    "Accumulation",
    "Checkpoint",
    "CheckpointMismatch",
    "Distributed",
    "GpuRequired",
    "GpuUnused",
    "KerasFitUnsupported",
    "NoFramework",
    "NoSuchChannel",
    "Setup",
    "Watch",
    "accumulation",
    "callbacks",
    "checkpoint",
    "checkpoint_requested",
    "device",
    "distributed",
    "gather",
    "gather_object",
    "global_batch_size",
    "hyperparameters",
    "is_first_rank",
    "load",
    "log_throughput",
    "paths",
    "print",
    "reduce",
    "save",
    "setup",
    "strategy",
    "watch",
]


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
