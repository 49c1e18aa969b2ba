"""How much GPU memory a trace needs, whether it fits, and the largest batch size that does."""

from gpuproof.planning.memory.batch_size import largest_batch
from gpuproof.planning.memory.estimate import estimate_memory, fit, unlimited_replays
from gpuproof.planning.memory.replay import Replay, replay

__all__ = ["Replay", "estimate_memory", "fit", "largest_batch", "replay", "unlimited_replays"]
