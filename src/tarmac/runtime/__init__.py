"""What a user's script may import: a GPU or a clear error, never a silent fall back to the CPU.

Standard library alone; works where neither framework is installed, and in any container, because the agent carries it.
`import tarmac.runtime as rt`, then `rt.setup()`, `rt.device()`, `rt.strategy()` or `rt.distributed()`, `rt.save(model)`.
"""

from tarmac.runtime.checkpoints import Checkpoint, CheckpointMismatch, checkpoint
from tarmac.runtime.contract import NoSuchChannel, hyperparameters, is_first_rank, paths
from tarmac.runtime.devices import GpuRequired, device
from tarmac.runtime.frameworks import NoFramework
from tarmac.runtime.keras_guard import KerasFitUnsupported
from tarmac.runtime.preparation import Setup, setup
from tarmac.runtime.process_groups import Distributed, distributed
from tarmac.runtime.saving import load, save
from tarmac.runtime.strategies import global_batch_size, strategy

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
