"""How long a step takes on a GPU, and what it waits for."""

from gpuproof.planning.time.roofline import operator_cost, tile_efficiency
from gpuproof.planning.time.step import estimate_step, input_seconds, launch_seconds

__all__ = ["estimate_step", "input_seconds", "launch_seconds", "operator_cost", "tile_efficiency"]
