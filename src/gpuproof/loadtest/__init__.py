"""HTTP load generator and its results.

Requests are sent on a schedule, regardless of earlier responses (`open_loop`), or by clients that each wait for their
response (`closed_loop`). `find_rate` searches for the highest rate that meets a latency target.
"""

from gpuproof.loadtest.find_rate import Goal, SearchResult, Trial, find_rate
from gpuproof.loadtest.histogram import Histogram
from gpuproof.loadtest.load import Load, closed_loop, open_loop, probe
from gpuproof.loadtest.result import Result
from gpuproof.loadtest.target import Target

__all__ = [
    "Goal",
    "Histogram",
    "Load",
    "Result",
    "SearchResult",
    "Target",
    "Trial",
    "closed_loop",
    "find_rate",
    "open_loop",
    "probe",
]
