"""Load on an HTTP endpoint, and what it did under it.

Requests are sent on a schedule, whether or not earlier ones were answered (`open_loop`), or by clients that each wait
for their answer (`closed_loop`). `find_rate` looks for the highest rate that still meets a latency target.
"""

from gpuproof.loadtest.find_rate import Found, Goal, Trial, find_rate
from gpuproof.loadtest.histogram import Histogram
from gpuproof.loadtest.load import Load, closed_loop, open_loop, probe
from gpuproof.loadtest.result import Result
from gpuproof.loadtest.target import Target

__all__ = [
    "Found",
    "Goal",
    "Histogram",
    "Load",
    "Result",
    "Target",
    "Trial",
    "closed_loop",
    "find_rate",
    "open_loop",
    "probe",
]
