"""How hard a busy GPU works: its performance counters (NVML's GPM, or DCGM where it runs), or what stands in for them.

`Counters` is one reading, `IntensityStats` adds readings up, `Intensity` is what a run's verdict rests on.
"""

from gpuproof.gpu.intensity.measurements import COUNTERS, DCGM, GPM, Counters, Intensity
from gpuproof.gpu.intensity.stats import IntensityStats

__all__ = ["COUNTERS", "DCGM", "GPM", "Counters", "Intensity", "IntensityStats"]
